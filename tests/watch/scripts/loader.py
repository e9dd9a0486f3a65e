"""Batches from a DataLoader, in this process or from workers."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    dataset = TensorDataset(torch.randn(64, 32), torch.randn(64, 1))
    loader = DataLoader(dataset, batch_size=16, shuffle=True, num_workers=int(sys.argv[1]))
    step = 0
    for _epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            print(f"step {step} {loss.item().hex()}", flush=True)
            step += 1
