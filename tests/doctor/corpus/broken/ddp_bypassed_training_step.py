"""A trainer that asks the model for its loss, in the manner of frameworks whose models have a training_step."""
# doctor: expect=ddp-bypassed also=parameters-diverge style=framework-like

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Regressor(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(12, width), nn.GELU())
        self.head = nn.Linear(width, 1)

    def forward(self, x, y=None):
        prediction = self.head(self.encoder(x)).squeeze(-1)
        return prediction if y is None else nn.functional.mse_loss(prediction, y)

    def training_step(self, batch):
        x, y = batch
        return nn.functional.mse_loss(self.head(self.encoder(x)).squeeze(-1), y)


class Trainer:
    def __init__(self, model, loader):
        self.model = DistributedDataParallel(model)
        self.loader = loader
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)

    def step(self, batch):
        loss = self.model.module.training_step(batch)  # wrong
        #+ loss = self.model(*batch)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self, epochs):
        for epoch in range(epochs):
            self.loader.sampler.set_epoch(epoch)
            losses = [self.step(batch) for batch in self.loader]
            if dist.get_rank() == 0:
                print(f"epoch {epoch}: {sum(losses) / len(losses):.4f}")


def run():
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    dataset = TensorDataset(torch.randn(128, 12), torch.randn(128))
    loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
    Trainer(Regressor(), loader).fit(2)
    dist.destroy_process_group()


run()
