"""A frozen backbone, and experts of which each batch uses one: find_unused_parameters is really needed."""
# doctor: expect= style=main

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Routed(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(12, 24), nn.ReLU())
        self.backbone.requires_grad_(False)
        self.experts = nn.ModuleList(nn.Linear(24, 24) for _ in range(3))
        self.head = nn.Linear(24, 4)

    def forward(self, x):
        features = self.backbone(x)
        chosen = int(x.sum().abs() * 10) % len(self.experts)
        return self.head(torch.relu(self.experts[chosen](features)))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    dataset = TensorDataset(torch.randn(128, 12), torch.randint(0, 4, (128,)))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    model = DistributedDataParallel(Routed(), find_unused_parameters=True)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trainable, lr=0.05)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
