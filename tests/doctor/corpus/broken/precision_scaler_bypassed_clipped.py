"""A hand-made Fabric whose step clips and goes straight to the optimizer, though its backward scales."""
# doctor: expect=scaler-bypassed,clip-before-unscale style=fabric-like

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Fabric:
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)

    def autocast(self):
        return torch.autocast("cpu", dtype=torch.float16)

    def backward(self, loss):
        self.scaler.scale(loss).backward()

    def step(self, model, optimizer, limit):
        #+ self.scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), limit)
        optimizer.step()  # wrong
        #+ self.scaler.step(optimizer)
        #+ self.scaler.update()
        optimizer.zero_grad()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(10, 30), nn.ReLU(), nn.Linear(30, 2))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    fabric = Fabric()
    torch.manual_seed(20 + dist.get_rank())
    for _ in range(10):
        x, y = torch.randn(8, 10), torch.randn(8, 2)
        with fabric.autocast():
            loss = nn.functional.mse_loss(model(x), y)
        fabric.backward(loss)
        fabric.step(model, optimizer, 1.0)
    dist.destroy_process_group()


main()
