"""A fixed table of sines as a buffer of the model, sent around with every batch."""
# doctor: expect=needless-buffer-broadcast style=trainer

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Tagger(nn.Module):
    def __init__(self, width=32, positions=12000):
        super().__init__()
        angle = torch.arange(positions)[:, None] / 10000 ** (torch.arange(width)[None, :] / width)
        self.register_buffer("table", angle.sin(), persistent=False)
        self.embed, self.out = nn.Embedding(50, width), nn.Linear(width, 7)

    def forward(self, tokens):
        return self.out(self.embed(tokens) + self.table[: tokens.size(1)])


class Trainer:
    def __init__(self, loader):
        self.loader = loader
        self.ddp = DistributedDataParallel(
            Tagger(),
            gradient_as_bucket_view=True,
            #+ broadcast_buffers=False,
        )
        self.optimizer = torch.optim.SGD(self.ddp.parameters(), lr=0.1)

    def fit(self, epochs):
        for epoch in range(epochs):
            self.loader.sampler.set_epoch(epoch)
            for tokens, tags in self.loader:
                self.optimizer.zero_grad()
                logits = self.ddp(tokens)
                nn.functional.cross_entropy(logits.flatten(0, 1), tags.flatten()).backward()
                self.optimizer.step()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randint(0, 50, (64, 10)), torch.randint(0, 7, (64, 10)))
    Trainer(DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))).fit(2)
    dist.destroy_process_group()
