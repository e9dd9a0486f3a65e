"""Fine-tunes for one epoch; what does not fill a window at its end is computed and never applied."""
# doctor: expect=window-dropped style=function-per-epoch mode=python

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def fine_tune(model, loader, optimizer, window):
    model.train()
    seen = 0
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        (loss / window).backward()
        seen += 1
        if seen == window:
            optimizer.step()
            optimizer.zero_grad()
            seen = 0
    #+ if seen:
    #+     optimizer.step()
    #+     optimizer.zero_grad()


if __name__ == "__main__":
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(188, 12), torch.randn(188, 2))
    net = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 2))
    fine_tune(net, DataLoader(data, batch_size=4, shuffle=True), torch.optim.SGD(net.parameters(), lr=0.05), window=8)
