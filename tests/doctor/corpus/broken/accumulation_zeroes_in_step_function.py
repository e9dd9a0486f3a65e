"""The function that makes one forward and backward pass also clears the model's gradients; a scaler steps."""
# doctor: expect=zeroed-every-micro-batch style=while-loop mode=python

import torch
from torch import nn
from torch.amp import GradScaler, autocast

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(20, 40), nn.GELU(), nn.Linear(40, 5))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = GradScaler("cpu", init_scale=512.0)
inputs, labels = torch.randn(600, 20), torch.randint(0, 5, (600,))


def forward_backward(rows, share):
    model.zero_grad()  # wrong
    with autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(inputs[rows]), labels[rows])
    scaler.scale(loss * share).backward()
    return loss.item()


step = 0
while step < 8:
    order = torch.randperm(600)
    #+ model.zero_grad()
    for part in range(3):
        forward_backward(order[part * 16 : part * 16 + 16], 1 / 3)
    scaler.step(optimizer)
    scaler.update()
    step += 1
