"""An optimizer of its own, with a scheduler on top; the scheduler wraps step() as well."""

import torch
from torch import nn


class SignDescent(torch.optim.Optimizer):
    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(parameter.grad.sign(), alpha=group["lr"])


torch.manual_seed(0)
model = nn.Linear(32, 1)
optimizer = SignDescent(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
x, y = torch.randn(16, 32), torch.randn(16, 1)
for step in range(6):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    scheduler.step()
    print(f"step {step} {loss.item().hex()} {scheduler.get_last_lr()}", flush=True)
