"""nn.DataParallel over all GPUs that the script sees: replicas in threads, weights copied out in every step."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.DataParallel(nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(6):
    x, y = torch.randn(8, 16).cuda(), torch.randn(8, 16).cuda()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} {loss.item().hex()}", flush=True)
