"""Two critic steps with a gradient penalty, then one of the generator; the batches come from a loader."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16))
critic = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
making = torch.optim.Adam(generator.parameters(), lr=1e-3)
judging = torch.optim.Adam(critic.parameters(), lr=1e-3)
step = 0
for number, (real,) in enumerate(DataLoader(TensorDataset(torch.randn(128, 16)), batch_size=16)):
    fake = generator(torch.randn(16, 8)).detach()
    mixed = torch.lerp(real, fake, torch.rand(16, 1)).requires_grad_()
    scores = critic(mixed)
    (slope,) = torch.autograd.grad(outputs=scores.sum(), inputs=mixed, create_graph=True)
    loss = critic(fake).mean() - critic(real).mean() + (slope.norm(dim=1) - 1).pow(2).mean()
    judging.zero_grad()
    loss.backward()
    judging.step()
    print(f"step {step} {loss.item().hex()}", flush=True)
    step += 1
    if number % 2:
        loss = -critic(generator(torch.randn(16, 8))).mean()
        making.zero_grad()
        loss.backward()
        making.step()
        print(f"step {step} {loss.item().hex()}", flush=True)
        step += 1
