"""A thread fetches batches ahead, through transforms, while the main thread trains."""

import queue
import threading

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Jitter(nn.Module):
    def forward(self, x):
        return x * 1.5


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
ready = queue.Queue(maxsize=2)


def fetch():
    transform = Jitter()
    for x, y in DataLoader(TensorDataset(torch.randn(128, 32), torch.randn(128, 1)), batch_size=16):
        ready.put((transform(x), y))
    ready.put(None)


threading.Thread(target=fetch).start()
for step, (x, y) in enumerate(iter(ready.get, None)):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} {loss.item().hex()}", flush=True)
