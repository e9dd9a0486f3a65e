"""Trains a convolutional network on pictures of one size, without letting cuDNN look for the fastest algorithm."""
# doctor: expect=convolutions-not-tuned style=flat mode=python threads=auto

import torch
from torch import nn

torch.manual_seed(0)
# + torch.backends.cudnn.benchmark = True
layers = [nn.Conv2d(16, 48, 3, padding=1), nn.ReLU(), nn.Conv2d(48, 48, 3, padding=1), nn.ReLU()]
model = nn.Sequential(*layers, nn.Conv2d(48, 4, 1)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
x = torch.randn(16, 16, 200, 200, device="cuda")
y = torch.randn(16, 4, 200, 200, device="cuda")

for _ in range(70):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
