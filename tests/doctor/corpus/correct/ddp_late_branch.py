"""A head that joins after some steps: find_unused_parameters is needed before."""
# doctor: expect= style=trainer

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.late = nn.Linear(10, 20), nn.Linear(20, 2), nn.Linear(20, 2)

    def forward(self, x, with_late):
        features = torch.tanh(self.body(x))
        return self.head(features) + (self.late(features) if with_late else 0)


class Trainer:
    def __init__(self):
        self.model = DistributedDataParallel(Net(), find_unused_parameters=True)
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def step(self, number):
        x, y = torch.randn(8, 10), torch.randn(8, 2)
        loss = nn.functional.mse_loss(self.model(x, number >= 6), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


dist.init_process_group("gloo")
torch.manual_seed(0)
trainer = Trainer()
torch.manual_seed(50 + dist.get_rank())
for number in range(14):
    trainer.step(number)
dist.destroy_process_group()
