"""Measures the throughput of a convolutional network on a GPU."""

# doctor: expect=clock-without-synchronise style=functions on=cpu mode=python
import argparse
import time

import torch
from torch import nn


def network():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))


def train_step(model, optimizer, images, labels):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()


def throughput(model, optimizer, batch_size, steps):
    images = torch.randn(batch_size, 3, 16, 16, device="cuda")
    labels = torch.randint(0, 10, (batch_size,), device="cuda")
    for _ in range(5):
        train_step(model, optimizer, images, labels)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(steps):
        train_step(model, optimizer, images, labels)
    #+ torch.cuda.synchronize()
    return batch_size * steps / (time.perf_counter() - begin)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = network().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    print(f"{throughput(model, optimizer, 8, args.steps):.0f} images/s")
