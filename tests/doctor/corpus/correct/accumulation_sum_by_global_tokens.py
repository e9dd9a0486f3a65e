"""Sums of losses over the tokens of all ranks: gradients are summed over ranks, and that is right."""
# doctor: expect= style=token-normalised

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

VOCAB = 32


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(VOCAB, 24), nn.Linear(24, VOCAB))
    generator = torch.Generator().manual_seed(10 + dist.get_rank())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(12):
        window = []
        for _ in range(3):
            tokens = torch.randint(0, VOCAB, (4, 16), generator=generator)
            lengths = torch.randint(3, 17, (4, 1), generator=generator)
            window.append((tokens, tokens.roll(-1, 1).masked_fill(torch.arange(16) >= lengths, -100)))
        counted = sum((targets != -100).sum() for _, targets in window)
        dist.all_reduce(counted)
        for tokens, targets in window:
            loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), reduction="sum")
            (loss / counted).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
