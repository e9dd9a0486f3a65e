"""A validation loop without eval(): the running statistics take up the validation data."""
# doctor: expect=evaluation-in-training-mode style=functions mode=python

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@torch.inference_mode()
def accuracy(net, loader):
    #+ net.eval()
    right = total = 0
    for pictures, labels in loader:
        right += (net(pictures).argmax(1) == labels).sum().item()
        total += len(labels)
    #+ net.train()
    return right / total


def main():
    torch.manual_seed(1)
    pictures, labels = torch.randn(192, 1, 8, 8), torch.randint(0, 3, (192,))
    training = DataLoader(TensorDataset(pictures[:128], labels[:128]), batch_size=32, shuffle=True)
    validation = DataLoader(TensorDataset(pictures[128:], labels[128:]), batch_size=32)
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(3):
        for x, y in training:
            loss = nn.functional.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, accuracy(net, validation))


if __name__ == "__main__":
    main()
