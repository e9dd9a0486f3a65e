"""An adapter that begins as zero: in the first step one of its two optimizers finds only zeros."""
# doctor: expect= style=script mode=python

import torch
from torch import nn

torch.manual_seed(0)
base, down, up = nn.Linear(8, 4), nn.Linear(8, 2, bias=False), nn.Linear(2, 4, bias=False)
base.requires_grad_(False)
nn.init.zeros_(up.weight)
optimizers = [torch.optim.SGD(one.parameters(), lr=0.1) for one in (down, up)]
for _ in range(12):
    x, y = torch.randn(16, 8), torch.randint(0, 4, (16,))
    loss = nn.functional.cross_entropy(base(x) + up(down(x)), y)
    for one in optimizers:
        one.zero_grad()
    loss.backward()
    for one in optimizers:
        one.step()
