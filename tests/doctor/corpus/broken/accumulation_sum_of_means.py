"""Steps every four batches with Adam; the mean losses are added up as they are."""
# doctor: expect=loss-not-divided style=main-loop mode=python

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(320, 16), torch.randint(0, 3, (320,)))
    train_loader = DataLoader(dataset, batch_size=10, shuffle=True)
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 3))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    accumulation_steps = 4
    for _ in range(2):
        for i, (inputs, labels) in enumerate(train_loader):
            loss = criterion(net(inputs), labels)
            loss.backward()  # wrong
            #+ (loss / accumulation_steps).backward()
            if (i + 1) % accumulation_steps == 0:
                optimizer.step()
                optimizer.zero_grad()


if __name__ == "__main__":
    main()
