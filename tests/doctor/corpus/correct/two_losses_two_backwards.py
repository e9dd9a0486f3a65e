"""Two tasks on one model: each loss has a backward call of its own, their gradients are meant to add up."""
# doctor: expect= style=multitask

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 32), nn.ReLU())
        self.classes = nn.Linear(32, 3)
        self.value = nn.Linear(32, 1)

    def forward(self, x):
        h = self.body(x)
        return self.classes(h), self.value(h)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(96, 10), torch.randint(0, 3, (96,)), torch.randn(96, 1))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    net = TwoHeads()
    model = DDP(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, label, target in loader:
            optimizer.zero_grad()
            # The first pass adds up locally; the second, with its own forward, carries both sums over the wire.
            with model.no_sync():
                logits, value = model(x)
                (nn.functional.cross_entropy(logits, label) + 0 * value.sum()).backward()
            logits, value = model(x)
            (0.5 * nn.functional.mse_loss(value, target) + 0 * logits.sum()).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
