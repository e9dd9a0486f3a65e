"""A trainer that wraps in DataParallel whatever it is given."""
# doctor: expect=data-parallel style=trainer mode=python

import torch
from torch import nn


class Trainer:
    def __init__(self, net):
        self.net = nn.DataParallel(net)  # wrong
        #+ self.net = net
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def main():
    torch.manual_seed(0)
    trainer = Trainer(nn.Sequential(nn.Linear(8, 24), nn.SiLU(), nn.Linear(24, 2)))
    history = []
    for _ in range(10):
        history.append(trainer.step(torch.randn(16, 8), torch.randn(16, 2)))
    print(torch.stack(history).mean().item())


if __name__ == "__main__":
    main()
