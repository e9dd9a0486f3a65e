"""A loop of very short steps, long enough to be watched only now and then; evaluates and saves on the way."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(300):
    x, y = torch.randn(4, 8), torch.randn(4, 1)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 50 == 49:
        with torch.no_grad():
            print(f"step {step} {loss.item().hex()} {model(x).sum().item().hex()}")
other = nn.Linear(8, 1)  # a new model, of a class that was only called from inside before
optimizer = torch.optim.SGD(other.parameters(), lr=0.05)
for _ in range(100):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(other(x), y)
    loss.backward()
    optimizer.step()
print(loss.item().hex())
