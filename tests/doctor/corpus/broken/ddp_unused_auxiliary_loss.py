"""An auxiliary head whose loss was taken out of the sum, as a person does who tries whether it helps."""
# doctor: expect=unused-parameters also=parameters-diverge,left-early,collective-on-some-ranks style=trainer

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(10, 30), nn.Tanh())
        self.main = nn.Linear(30, 2)
        self.auxiliary = nn.Linear(30, 1)

    def forward(self, x):
        features = self.trunk(x)
        return self.main(features), self.auxiliary(features)


class Trainer:
    def __init__(self):
        dataset = TensorDataset(torch.randn(80, 10), torch.randint(0, 2, (80,)), torch.randn(80, 1))
        self.loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
        self.model = DistributedDataParallel(TwoHeads())
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def train(self):
        self.loader.sampler.set_epoch(0)
        for x, label, value in self.loader:
            logits, estimate = self.model(x)
            loss = nn.functional.cross_entropy(logits, label)
            #+ loss = loss + 0.1 * nn.functional.mse_loss(estimate, value)
            print(f"{nn.functional.mse_loss(estimate, value):.3f}")  # wrong
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


dist.init_process_group("gloo")
torch.manual_seed(0)
Trainer().train()
dist.destroy_process_group()
