"""An endless IterableDataset; two batches per step are fetched inside the step."""

import itertools

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Endless(IterableDataset):
    def __iter__(self):
        generator = torch.Generator().manual_seed(7)
        for _ in itertools.count():
            yield torch.randn(32, generator=generator), torch.randn(1, generator=generator)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
batches = iter(DataLoader(Endless(), batch_size=8))
for step in range(6):
    total = 0.0
    for _ in range(2):
        x, y = next(batches)
        loss = nn.functional.mse_loss(model(x), y) / 2
        loss.backward()
        total += loss.item()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} {total.hex()}", flush=True)
