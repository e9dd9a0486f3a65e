"""Two networks, two optimizers, each stepped after its own backward."""

import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16))
critic = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
generator_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
score = nn.functional.binary_cross_entropy_with_logits
for step in range(6):
    real, noise = torch.randn(16, 16), torch.randn(16, 8)
    critic_optimizer.zero_grad()
    fake = generator(noise).detach()
    loss = score(critic(real), torch.ones(16, 1)) + score(critic(fake), torch.zeros(16, 1))
    loss.backward()
    critic_optimizer.step()
    print(f"step {2 * step} {loss.item().hex()}", flush=True)

    generator_optimizer.zero_grad()
    loss = score(critic(generator(noise)), torch.ones(16, 1))
    loss.backward()
    generator_optimizer.step()
    print(f"step {2 * step + 1} {loss.item().hex()}", flush=True)
