"""Each parameter has an optimizer of its own that steps as soon as its gradient is there, inside backward."""
# doctor: expect= style=single mode=python

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def attach(model):
    optimizers = {p: torch.optim.Adam([p], lr=1e-3, foreach=False) for p in model.parameters()}

    def hook(p):
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(hook)


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 5))
    attach(model)
    data = TensorDataset(torch.randn(160, 12), torch.randint(0, 5, (160,)))
    for _ in range(2):
        for x, y in DataLoader(data, batch_size=16, shuffle=True):
            nn.functional.cross_entropy(model(x), y).backward()


if __name__ == "__main__":
    main()
