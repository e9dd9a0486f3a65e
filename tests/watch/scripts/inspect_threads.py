"""Two replicas of a model in two threads, as nn.DataParallel has them; weights are copied out in every step."""

import copy
import threading

import torch
from torch import nn

torch.manual_seed(0)


class Replicated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16))
        self.shells = [copy.deepcopy(self.module).to("meta") for _ in range(2)]

    def forward(self, x):
        weights = [{name: self.on(one, index) for name, one in self.module.named_parameters()} for index in range(2)]
        found = [None, None]

        def work(index, part):
            found[index] = torch.func.functional_call(self.shells[index], weights[index], part)

        threads = [threading.Thread(target=work, args=pair) for pair in enumerate(x.chunk(2))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return torch.cat(found)

    def on(self, weight, index):
        replica = weight.clone()
        replica.logical_device = f"logical:{index}"
        return replica


model = Replicated()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(6):
    x, y = torch.randn(8, 16), torch.randn(8, 16)
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} {loss.item().hex()}", flush=True)
