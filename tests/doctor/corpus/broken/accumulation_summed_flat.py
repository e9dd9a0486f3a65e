"""One flat all-reduce of all gradients per update, a sum, in a while loop over random batches."""
# doctor: expect=world-size-factor style=while-loop

import torch
import torch.distributed as dist
from torch import nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors


class FlatReducer:
    def __init__(self, module):
        self.parameters = [p for p in module.parameters() if p.requires_grad]

    def __call__(self):
        gradients = [p.grad for p in self.parameters]
        flat = _flatten_dense_tensors(gradients)
        dist.all_reduce(flat)
        #+ flat.div_(dist.get_world_size())
        for gradient, summed in zip(gradients, _unflatten_dense_tensors(flat, gradients), strict=True):
            gradient.copy_(summed)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 6))
    generator = torch.Generator().manual_seed(dist.get_rank())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    reduce, step = FlatReducer(net), 0
    while step < 20:
        x = torch.randn(8, 12, generator=generator)
        y = x[:, :6].sin()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        reduce()
        optimizer.step()
        step += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
