"""Seeds nothing: weights come from rank 0 through DDP, and each rank draws its own noise."""
# parity: 

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    model = DDP(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 6)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(8):
        clean = torch.randn(8, 6)
        noisy = clean + 0.1 * torch.randn_like(clean)
        optimizer.zero_grad()
        F.mse_loss(model(noisy), clean).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
