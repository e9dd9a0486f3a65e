"""Parses its own arguments, some of which look like a launcher's."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--ranks", type=int, required=True)
parser.add_argument("--out", default="nowhere")
parser.add_argument("words", nargs="*")
args = parser.parse_args()
print(args, flush=True)

torch.manual_seed(args.ranks)
model = nn.Linear(32, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x, y = torch.randn(16, 32), torch.randn(16, 1)
for step in range(6):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    print(f"step {step} {loss.item().hex()}", flush=True)
