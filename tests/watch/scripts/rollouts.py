"""A policy acts for some steps, with or without gradients, and is then updated three times on what it saw."""

import contextlib
import sys

import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2))
value = nn.Linear(8, 1)
optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=0.01)
acting = torch.no_grad if sys.argv[1] == "no_grad" else contextlib.nullcontext
step = 0
for _ in range(4):
    seen, chosen = [], []
    state = torch.randn(4, 8)
    with acting():
        for _ in range(5):
            action = torch.multinomial(policy(state).softmax(-1), 1)
            state = state + 0.1 * (action - 0.5) + 0.01 * value(state).detach()
            seen.append(state.detach())
            chosen.append(action)
    states, actions = torch.cat(seen), torch.cat(chosen)
    for _ in range(3):
        score = policy(states).log_softmax(-1).gather(1, actions).mean()
        loss = -score + value(states).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} {loss.item().hex()}", flush=True)
        step += 1
