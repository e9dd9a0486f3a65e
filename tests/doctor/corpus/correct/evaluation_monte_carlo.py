"""Monte-Carlo dropout: the test data go through the model several times, with dropout on, to see how sure it is."""
# doctor: expect= style=functions mode=python

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def uncertainty(model, loader, passes=5):
    spread = []
    with torch.no_grad():
        for x, _ in loader:
            outputs = torch.stack([model(x).softmax(1) for _ in range(passes)])
            spread.append(outputs.std(0).mean().item())
    return sum(spread) / len(spread)


torch.manual_seed(0)
x = torch.randn(160, 10)
y = (x.sum(1) > 0).long()
training = DataLoader(TensorDataset(x[:96], y[:96]), batch_size=16, shuffle=True)
testing = DataLoader(TensorDataset(x[96:], y[96:]), batch_size=16)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(3):
    for a, b in training:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(a), b).backward()
        optimizer.step()
    print(uncertainty(model, testing))
