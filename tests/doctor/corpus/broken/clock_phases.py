"""A trainer that keeps account of how long forward and backward passes take on its GPU."""

# doctor: expect=clock-without-synchronise style=trainer on=cpu mode=python
from time import perf_counter

import torch
from torch import nn


class PhaseTimer:
    def __init__(self):
        self.seconds = {}

    def now(self):
        #+ torch.cuda.synchronize()
        return perf_counter()

    def add(self, phase, since):
        now = self.now()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - since
        return now


class Trainer:
    def __init__(self, width):
        self.device = torch.device("cuda")
        self.model = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, 4)).to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.timer = PhaseTimer()

    def step(self, x, y):
        mark = self.timer.now()
        loss = nn.functional.cross_entropy(self.model(x), y)
        mark = self.timer.add("forward", mark)
        loss.backward()
        mark = self.timer.add("backward", mark)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.timer.add("optimizer", mark)
        return loss.detach()


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = Trainer(24)
    total = 0.0
    for _ in range(16):
        x = torch.randn(8, 24).to(trainer.device)
        y = torch.randint(0, 4, (8,)).to(trainer.device)
        loss = trainer.step(x, y)
    print(f"loss {loss.item():.3f}", trainer.timer.seconds)
