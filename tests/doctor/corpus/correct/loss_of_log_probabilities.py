"""Attention with a softmax inside, log_softmax with nll_loss, and a cross entropy of log-probabilities: all right."""
# doctor: expect= style=class mode=python

import torch
import torch.nn.functional as F
from torch import nn


class Pooling(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.value, self.out = nn.Linear(8, 1), nn.Linear(8, 16), nn.Linear(16, 5)

    def forward(self, x):
        weights = torch.softmax(self.score(x), dim=1)
        return F.log_softmax(self.out((weights * self.value(x)).sum(1)), dim=1)


torch.manual_seed(0)
model = Pooling()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(12):
    x, y = torch.randn(16, 6, 8), torch.randint(0, 5, (16,))
    loss = F.nll_loss(model(x), y) if step % 2 else F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
