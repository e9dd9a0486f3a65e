"""An optimizer that averages gradients at the beginning of its own step."""
# parity: 

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class Averaging(torch.optim.SGD):
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                dist.all_reduce(p.grad)
                p.grad /= dist.get_world_size()
        return super().step(closure)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2))
    optimizer = Averaging(model.parameters(), lr=0.1, momentum=0.5)
    torch.manual_seed(30 + dist.get_rank())
    for _ in range(8):
        x, y = torch.randn(8, 6), torch.randint(0, 2, (8,))
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
