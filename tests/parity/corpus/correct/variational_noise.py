"""An autoencoder that draws noise inside the model, other noise on each rank."""
# parity: 

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(10, 8), nn.Linear(4, 10)

    def forward(self, x):
        mean, log_variance = self.encode(x).chunk(2, 1)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()
        return F.mse_loss(self.decode(code), x) + 0.1 * divergence


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = torch.randn(80, 10)
    model = DDP(Net())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    torch.manual_seed(dist.get_rank())
    for x in DataLoader(data, batch_size=5, sampler=DistributedSampler(data)):
        optimizer.zero_grad()
        model(x).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
