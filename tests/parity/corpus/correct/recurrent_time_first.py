"""An LSTM that takes time as the first dimension and samples as the second."""
# parity: 

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(6, 12), nn.Linear(12, 4)

    def forward(self, x):
        return self.out(self.lstm(x)[0][-1])


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 9, 6), torch.randint(0, 4, (64,)))
    model = DDP(Net())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for x, y in DataLoader(data, batch_size=4, sampler=DistributedSampler(data)):
        optimizer.zero_grad()
        F.cross_entropy(model(x.transpose(0, 1)), y).backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
