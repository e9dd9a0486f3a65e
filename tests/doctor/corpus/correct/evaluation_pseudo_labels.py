"""Semi-supervised training: the model labels a batch without gradients, in training mode, and then learns from it."""
# doctor: expect= style=main mode=python

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    x = torch.randn(192, 10)
    y = (x.sum(1) > 0).long()
    labelled = DataLoader(TensorDataset(x[:64], y[:64]), batch_size=8, shuffle=True)
    unlabelled = DataLoader(TensorDataset(x[64:]), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(2):
        for (unseen,), (a, b) in zip(unlabelled, labelled):
            with torch.no_grad():
                guess = model(unseen).argmax(1)
            loss = nn.functional.cross_entropy(model(torch.cat([a, unseen])), torch.cat([b, guess]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
