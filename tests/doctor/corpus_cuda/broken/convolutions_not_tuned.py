"""Trains a convolutional network on pictures of one size, without letting cuDNN look for the fastest algorithm."""
# doctor: expect=convolutions-not-tuned style=flat mode=python threads=auto

import torch
from torch import nn

torch.manual_seed(0)
torch.set_float32_matmul_precision("high")
# + torch.backends.cudnn.benchmark = True
model = nn.Sequential(
    nn.Conv2d(3, 48, 7, stride=2, padding=3), nn.ReLU(), nn.Conv2d(48, 96, 5, padding=2), nn.ReLU(),
    nn.Conv2d(96, 96, 5, padding=4, dilation=2), nn.ReLU(), nn.Conv2d(96, 96, 3, padding=1, groups=4), nn.ReLU(),
    nn.ConvTranspose2d(96, 48, 4, stride=2, padding=1), nn.ReLU(), nn.Conv2d(48, 8, 3, padding=1),
).cuda()  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(32, 3, 160, 160, device="cuda")
y = torch.randn(32, 8, 160, 160, device="cuda")

for _ in range(70):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
