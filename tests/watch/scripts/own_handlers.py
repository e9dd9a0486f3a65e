"""Has an excepthook, an exit function and a signal handler of its own, uses all three, ends by raising."""

import atexit
import os
import signal
import sys

import torch
from torch import nn

received = []
signal.signal(signal.SIGUSR1, lambda number, frame: received.append(number))
atexit.register(lambda: print("exit function", received == [signal.SIGUSR1], flush=True))
sys.excepthook = lambda kind, value, trace: print("own excepthook", kind.__name__, value, flush=True)

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
    if step == 2:
        os.kill(os.getpid(), signal.SIGUSR1)
print("handler", signal.getsignal(signal.SIGUSR1).__name__, sys.excepthook.__name__, flush=True)
raise KeyError("after training")
