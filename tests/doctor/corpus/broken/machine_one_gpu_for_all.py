"""Written for several GPUs; the device is named without a number."""
# doctor: expect=one-device-for-all style=main on=cpu

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda")  # wrong
    #+ device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    #+ torch.cuda.set_device(device)
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(64, 16), torch.randint(0, 2, (64,)))
    loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
    model = DDP(nn.Linear(16, 2).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
