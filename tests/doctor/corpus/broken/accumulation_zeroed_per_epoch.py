"""Zeroes once in front of each epoch; every step of it adds to those before."""
# doctor: expect=never-zeroed style=function-per-epoch mode=python

import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset


def train(model, loader, optimizer, criterion):
    model.train()
    running = 0.0
    optimizer.zero_grad()
    for data, target in loader:
        loss = criterion(model(data), target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        #+ optimizer.zero_grad()
        running += loss.item()
    return running / len(loader)


if __name__ == "__main__":
    torch.manual_seed(0)
    ds = TensorDataset(torch.randn(144, 6), torch.randn(144, 1))
    mlp = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
    adam = optim.Adam(mlp.parameters(), lr=1e-3)
    for epoch in range(3):
        print(epoch, train(mlp, DataLoader(ds, batch_size=6, shuffle=True), adam, nn.MSELoss()))
