"""Measures the average step of a small transformer that is compiled at its first call."""

# doctor: expect=warm-up-in-average style=functions mode=python
import argparse
import time

import torch
from torch import nn


def make(width):
    layer = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)
    return torch.compile(nn.Sequential(layer, nn.Linear(width, width)), backend="eager")


def train_step(model, optimizer, x):
    optimizer.zero_grad()
    loss = (model(x) - x).square().mean()
    loss.backward()
    optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = make(32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(4, 8, 32)
    #+ for _ in range(5):
    #+     train_step(model, optimizer, x)
    start = time.perf_counter()
    for _ in range(args.steps):
        train_step(model, optimizer, x)
    elapsed = time.perf_counter() - start
    print(f"{elapsed / args.steps * 1000:.2f} ms per step")


if __name__ == "__main__":
    main()
