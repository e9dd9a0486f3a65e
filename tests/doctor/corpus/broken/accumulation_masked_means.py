"""A masked loss written by hand: each micro-batch is divided by its own mask, and then by the window."""
# doctor: expect=loss-weighted-per-micro-batch style=trainer mode=python

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Denoiser:
    def __init__(self, window=2):
        self.net = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 32))
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-3)
        self.window = window

    def errors(self, values, mask):
        return (self.net(values * (1 - mask)) - values).pow(2).mul(mask).sum()

    def train_window(self, batches):
        #+ counted = sum(mask.sum() for _, mask in batches)
        for values, mask in batches:
            loss = self.errors(values, mask) / mask.sum() / self.window  # wrong
            #+ loss = self.errors(values, mask) / counted
            loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def main():
    torch.manual_seed(0)
    shares = torch.rand(160, 1) * 0.8 + 0.1
    data = TensorDataset(torch.randn(160, 32), (torch.rand(160, 32) < shares).float())
    denoiser, held = Denoiser(), []
    for _ in range(2):
        for batch in DataLoader(data, batch_size=4, shuffle=True):
            held.append(batch)
            if len(held) == denoiser.window:
                denoiser.train_window(held)
                held = []


if __name__ == "__main__":
    main()
