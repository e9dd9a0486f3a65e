"""Prints all that it can see of how it was started, and then trains, unless another script imports it."""

import os
import sys
import threading

import torch
from torch import nn

CHANGES = ("MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_USE_AGENT_STORE")
for name in sorted(os.environ):
    print(name, "..." if name in CHANGES else os.environ[name], flush=True)
print(sys.path, sys.argv, sys.flags, __name__, flush=True)
print(threading.active_count(), torch.get_num_threads(), torch.get_default_dtype(), flush=True)


def train():
    torch.manual_seed(0)
    model = nn.Linear(32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x, y = torch.randn(16, 32), torch.randn(16, 1)
    for step in range(6):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        print(f"step {step} {loss.item().hex()}", flush=True)


if __name__ == "__main__":
    train()
