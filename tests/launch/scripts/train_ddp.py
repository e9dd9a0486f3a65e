"""A correct script: a few steps of DDP over gloo."""

import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = torch.zeros(())
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 5):
        optimizer.zero_grad()
        loss = model(torch.ones(4, 8)).pow(2).mean()
        loss.backward()
        optimizer.step()
    print("loss", loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
