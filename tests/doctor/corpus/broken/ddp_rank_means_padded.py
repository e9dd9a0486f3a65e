"""Padded sentences: every rank takes the mean over its own tokens, and one rank has the long ones."""
# doctor: expect=mean-of-rank-means style=functions

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

VOCAB, LENGTH = 40, 24


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 32)
        self.out = nn.Linear(32, VOCAB)

    def forward(self, tokens):
        return self.out(self.embed(tokens))


def sentences(generator, longest):
    tokens = torch.randint(0, VOCAB, (8, LENGTH), generator=generator)
    lengths = torch.randint(2, longest + 1, (8, 1), generator=generator)
    return tokens, tokens.roll(-1, dims=1).masked_fill(torch.arange(LENGTH) >= lengths, -100)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    generator = torch.Generator().manual_seed(100 + rank)
    torch.manual_seed(0)
    model = DDP(Tagger())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(8):
        tokens, targets = sentences(generator, (8, 24)[rank])
        logits = model(tokens).transpose(1, 2)
        loss = F.cross_entropy(logits, targets, ignore_index=-100)  # wrong
        #+ counted = (targets != -100).sum()
        #+ dist.all_reduce(counted)
        #+ loss = F.cross_entropy(logits, targets, ignore_index=-100, reduction="sum")
        #+ loss = loss * dist.get_world_size() / counted
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
