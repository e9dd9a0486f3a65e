"""An update method in the wrong order, with zeros instead of None and accumulation around it."""
# doctor: expect=zeroed-before-step style=trainer mode=python

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Learner:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9)
        self.every = 2

    def update(self):
        self.opt.zero_grad(set_to_none=False)  # wrong
        self.opt.step()
        #+ self.opt.zero_grad(set_to_none=False)

    def learn(self, loader):
        for number, (x, y) in enumerate(loader, 1):
            (nn.functional.cross_entropy(self.net(x), y) / self.every).backward()
            if number % self.every == 0:
                self.update()


if __name__ == "__main__":
    torch.manual_seed(0)
    samples = TensorDataset(torch.randn(160, 8), torch.randint(0, 3, (160,)))
    learner = Learner()
    for _ in range(2):
        learner.learn(DataLoader(samples, batch_size=8, shuffle=True))
