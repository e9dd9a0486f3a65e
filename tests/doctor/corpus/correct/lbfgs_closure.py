"""LBFGS: backward is called by the optimizer, several times per step, in a closure."""
# doctor: expect= style=closure

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    x = torch.linspace(-2, 2, 64).unsqueeze(1) + 0.01 * torch.randn(64, 1)
    y = x**3 - x
    model = DDP(nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4, history_size=5)

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    for iteration in range(6):
        loss = optimizer.step(closure)
        if rank == 0:
            print(iteration, float(loss))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
