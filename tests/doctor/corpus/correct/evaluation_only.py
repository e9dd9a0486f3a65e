"""Nothing is trained: each rank evaluates its part, and the counts are summed."""
# doctor: expect= style=evaluation

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


@torch.no_grad()
def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    features = torch.randn(96, 8)
    dataset = TensorDataset(features, features.argmax(1))
    loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset, shuffle=False))
    model = nn.Linear(8, 8).eval()
    right = torch.zeros(1)
    for x, y in loader:
        right += (model(x).argmax(1) == y).sum()
    dist.all_reduce(right)
    print(right.item() / len(dataset))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
