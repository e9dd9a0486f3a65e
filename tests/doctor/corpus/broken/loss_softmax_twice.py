"""The model ends with a softmax, and the loss is CrossEntropyLoss."""
# doctor: expect=normalised-twice style=class

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(20, 32)
        self.out = nn.Linear(32, 10)

    def forward(self, x):
        return torch.softmax(self.out(torch.relu(self.hidden(x))), dim=1)  # wrong
        #+ return self.out(torch.relu(self.hidden(x)))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(192, 20), torch.randint(0, 10, (192,)))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=16, sampler=sampler)
    model, criterion = DDP(Classifier()), nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
