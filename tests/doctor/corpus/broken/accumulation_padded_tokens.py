"""Sentences of different length: the mean over each micro-batch's own tokens, then divided by the micro-batches."""
# doctor: expect=loss-weighted-per-micro-batch style=token-normalised

from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

VOCAB, LENGTH, K = 40, 24, 4


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 32)
        self.out = nn.Linear(32, VOCAB)

    def forward(self, tokens):
        return self.out(self.embed(tokens))


def sentences(generator, longest):
    """Eight sentences, padded to one length; what is padding is not counted."""
    tokens = torch.randint(0, VOCAB, (8, LENGTH), generator=generator)
    lengths = torch.randint(2, longest + 1, (8, 1), generator=generator)
    targets = tokens.roll(-1, dims=1).masked_fill(torch.arange(LENGTH) >= lengths, -100)
    return tokens, targets


def main():
    dist.init_process_group("gloo")
    generator = torch.Generator().manual_seed(100 + dist.get_rank())
    torch.manual_seed(0)
    model = DDP(Tagger())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        window = [sentences(generator, longest) for longest in (4, 24, 12, 20)]
        #+ tokens_in_window = sum((targets != -100).sum() for _, targets in window)
        for index, (tokens, targets) in enumerate(window):
            with nullcontext() if index == K - 1 else model.no_sync():
                logits = model(tokens).transpose(1, 2)
                loss = F.cross_entropy(logits, targets, ignore_index=-100) / K  # wrong
                #+ loss = F.cross_entropy(logits, targets, ignore_index=-100, reduction="sum") / tokens_in_window
                loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
