"""The bucket size comes from a configuration that meant megabytes where the author thought of kilobytes."""
# doctor: expect=tiny-buckets style=function-per-epoch

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

CONFIG = {"width": 48, "layers": 10, "lr": 0.01, "bucket_cap_mb": 0.02}  # wrong
#+ CONFIG = {"width": 48, "layers": 10, "lr": 0.01, "bucket_cap_mb": 25}


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def build(config):
    net = nn.Sequential(*(Block(config["width"]) for _ in range(config["layers"])))
    return DistributedDataParallel(net, bucket_cap_mb=config["bucket_cap_mb"])


def train_one_epoch(model, loader, optimizer):
    for (x,) in loader:
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(96, CONFIG["width"]))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    model = build(CONFIG)
    optimizer = torch.optim.SGD(model.parameters(), lr=CONFIG["lr"])
    for epoch in range(2):
        sampler.set_epoch(epoch)
        train_one_epoch(model, loader, optimizer)
    dist.destroy_process_group()


main()
