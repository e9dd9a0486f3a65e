"""Padded sentences: every rank takes the mean over its own tokens, and these means are averaged."""
# parity: cause=mean-of-rank-means

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 16)
        self.out = nn.Linear(16, 30)

    def forward(self, tokens):
        return self.out(self.embed(tokens)).transpose(1, 2)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    lengths = torch.randint(2, 12, (96, 1))
    tokens = torch.randint(0, 30, (96, 12))
    labels = tokens.roll(-1, 1).masked_fill(torch.arange(12) >= lengths, -100)
    data = TensorDataset(tokens, labels)
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
    model = DDP(Tagger())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for tokens, labels in loader:
        loss = F.cross_entropy(model(tokens), labels, ignore_index=-100)  # wrong
        # + counted = (labels != -100).sum()
        # + dist.all_reduce(counted)
        # + total = F.cross_entropy(model(tokens), labels, ignore_index=-100, reduction="sum")
        # + loss = total * dist.get_world_size() / counted
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
