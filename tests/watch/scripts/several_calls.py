"""One module called several times before each backward: on two views, over time, on parts of a batch."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

how = sys.argv[1]


class Centres(nn.Module):
    """A loss with parameters of its own."""

    def __init__(self):
        super().__init__()
        self.centres = nn.Parameter(torch.randn(1, 16))

    def forward(self, features):
        return (features - self.centres).pow(2).mean()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 16))
cell, centres = nn.GRUCell(32, 16), Centres()
optimizer = torch.optim.SGD([*model.parameters(), *cell.parameters(), *centres.parameters()], lr=0.05)
for step in range(8):
    if how == "no_loader":
        x = torch.randn(16, 32)
    else:
        ((x,),) = DataLoader(TensorDataset(torch.randn(16, 32)), batch_size=16)
    if how == "siamese" or how == "no_loader":
        loss = (model(x) - model(x + 0.1)).pow(2).mean()
    elif how == "unrolled":
        state = torch.zeros(16, 16)
        for time in range(5):
            state = cell(x * time, state)
        loss = state.pow(2).mean()
    elif how == "parts":
        loss = sum(model(part).pow(2).mean() for part in x.chunk(4))
    elif how == "centres":
        loss = centres(model(x))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} {loss.item().hex()}", flush=True)
