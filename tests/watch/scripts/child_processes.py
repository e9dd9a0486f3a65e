"""Forks a child that trains too, and runs another program; only this process is the rank."""

import os
import subprocess
import sys

import torch
from torch import nn


def train(steps: int, word: str) -> None:
    torch.manual_seed(0)
    model = nn.Linear(32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x, y = torch.randn(16, 32), torch.randn(16, 1)
    for step in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        print(f"{word} {step} {loss.item().hex()}", flush=True)


train(4, "step")
child = os.fork()
if child == 0:
    train(9, "child")
    os._exit(5)
print("child ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
print(subprocess.run([sys.executable, "-c", "print('another program')"], capture_output=True).stdout, flush=True)
