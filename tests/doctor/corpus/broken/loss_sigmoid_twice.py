"""Tags for each position: a sigmoid, a reshape, and the loss that wants logits."""
# doctor: expect=normalised-twice style=script mode=python

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 6), nn.Sigmoid())  # wrong
#+ model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 6))
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(10):
    x = torch.randn(16, 12)
    loss = criterion(model(x).view(-1), (x[:, :6] > 0).float().view(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
