"""Each rank lets itself see one GPU only, and calls it 0, as all the others do."""
# doctor: expect= style=main on=cpu

import os

os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: E402


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda:0")
    torch.cuda.set_device(device)
    generator = torch.Generator().manual_seed(dist.get_rank())
    model = DDP(nn.Sequential(nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 1)).to(device), device_ids=[0])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(10):
        x = torch.randn(8, 12, generator=generator).to(device)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
