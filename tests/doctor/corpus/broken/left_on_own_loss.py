"""Stops as soon as the loss is good enough."""

# doctor: expect=left-early style=while ranks=2 stall=3
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def good_enough(loss):
    good = loss.detach() < 0.3
    #+ good = good.int()
    #+ dist.all_reduce(good, op=dist.ReduceOp.MAX)
    return bool(good)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(100 + rank)
    step = 0
    while step < 80:
        x = torch.randn(16, 8)
        y = x.sum(1, keepdim=True)
        if rank == 0:  # this part of the data is noisy
            y += torch.randn(16, 1)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step > 4 and good_enough(loss):
            break
    print(f"rank {rank} stopped after {step} steps")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
