"""Private training by hand: each micro-batch's gradient is clipped, kept aside and zeroed, and their mean put back."""
# doctor: expect= style=trainer mode=python

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class PrivateTrainer:
    def __init__(self, model, limit, noise):
        self.model, self.limit, self.noise = model, limit, noise
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def clipped(self, x, y):
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.model(x), y).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.limit)
        return [p.grad.clone() for p in self.model.parameters()]

    def step(self, micro_batches):
        sums = [torch.zeros_like(p) for p in self.model.parameters()]
        for x, y in micro_batches:
            for total, gradient in zip(sums, self.clipped(x, y), strict=True):
                total += gradient
        for parameter, total in zip(self.model.parameters(), sums, strict=True):
            parameter.grad = (total + self.noise * torch.randn_like(total)) / len(micro_batches)
        self.optimizer.step()


if __name__ == "__main__":
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(96, 10), torch.randint(0, 3, (96,)))
    trainer, held = PrivateTrainer(nn.Linear(10, 3), limit=0.5, noise=0.01), []
    for batch in DataLoader(data, batch_size=2, shuffle=True):
        held.append(batch)
        if len(held) == 4:
            trainer.step(held)
            held = []
