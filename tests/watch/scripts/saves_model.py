"""Keeps a moving average by deep copy and saves everything whole: the module, its average, the optimizer."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
average = copy.deepcopy(model)
x, y = torch.randn(16, 32), torch.randn(16, 1)
for step in range(6):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for mean, new in zip(average.parameters(), model.parameters(), strict=True):
            mean.lerp_(new, 0.1)
    print(f"step {step} {loss.item().hex()}", flush=True)
torch.save(model, "model.pt")
torch.save({"average": average, "optimizer": optimizer.state_dict()}, "checkpoint.pt")
twin = copy.deepcopy(optimizer)
print("optimizer", sorted(vars(optimizer)), len(twin.param_groups), flush=True)
print("module", sorted(vars(model)), sorted(vars(model[0])), flush=True)
