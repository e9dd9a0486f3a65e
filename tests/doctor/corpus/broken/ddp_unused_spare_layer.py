"""A layer of an older version of the model is still there and nobody calls it."""
# doctor: expect=unused-parameters also=parameters-diverge,left-early,collective-on-some-ranks style=main-loop

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(16, 32)
        self.old_head = nn.Linear(32, 10)  # wrong
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        return self.head(torch.relu(self.fc1(x)))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(96, 16), torch.randint(0, 4, (96,)))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sampler.set_epoch(0)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
