"""One optimizer per parameter, which steps inside backward as soon as its gradient is there."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
optimizers = {parameter: torch.optim.SGD([parameter], lr=0.05) for parameter in model.parameters()}


def update(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(update)
for step in range(120):
    loss = nn.functional.mse_loss(model(torch.randn(16, 32)), torch.randn(16, 1))
    loss.backward()
    print(f"step {step} {loss.item().hex()}", flush=True)
