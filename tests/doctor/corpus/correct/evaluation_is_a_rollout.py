"""A policy with dropout collects steps without gradients and learns from those very observations afterwards."""
# doctor: expect= style=reinforcement mode=python

import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 3))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
for _ in range(5):
    memory = []
    state = torch.randn(16, 6)
    with torch.no_grad():
        for _ in range(4):
            action = torch.distributions.Categorical(logits=policy(state)).sample()
            memory.append((state, action, (action == state.argmax(1) % 3).float()))
            state = state + 0.1 * torch.randn_like(state)
    for seen, action, reward in memory:
        chosen = torch.distributions.Categorical(logits=policy(seen)).log_prob(action)
        loss = -(chosen * (reward - reward.mean())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
