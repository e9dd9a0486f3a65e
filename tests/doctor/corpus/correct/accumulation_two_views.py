"""Two augmented views of every batch, each with its own backward pass to save memory: the loss is their sum."""
# doctor: expect= style=main-loop mode=python

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def augmented(x):
    return x + 0.1 * torch.randn_like(x)


def main():
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(160, 16), torch.randint(0, 4, (160,)))
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(2):
        for x, y in DataLoader(dataset, batch_size=16, shuffle=True):
            optimizer.zero_grad()
            for _ in range(2):
                loss = nn.functional.cross_entropy(model(augmented(x)), y)
                loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
