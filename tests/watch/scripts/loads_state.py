"""Loads the state of model and optimizer as torch.distributed.checkpoint does, which steps the optimizer once."""

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
weights, moments = get_state_dict(model, optimizer)
set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
for step in range(6):
    loss = nn.functional.mse_loss(model(torch.randn(16, 32)), torch.randn(16, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} {loss.item().hex()}", flush=True)
