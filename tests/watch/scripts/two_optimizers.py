"""Two optimizers stepped back to back after one backward: one for the body, one for the head."""

import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Sequential(nn.Linear(32, 32), nn.ReLU()), nn.Linear(32, 1)
body_optimizer = torch.optim.SGD(body.parameters(), lr=0.05)
head_optimizer = torch.optim.Adam(head.parameters(), lr=0.01)
x, y = torch.randn(16, 32), torch.randn(16, 1)
for step in range(8):
    body_optimizer.zero_grad()
    head_optimizer.zero_grad()
    loss = nn.functional.mse_loss(head(body(x)), y)
    loss.backward()
    body_optimizer.step()
    head_optimizer.step()
    print(f"loss {step} {loss.item().hex()}", flush=True)
