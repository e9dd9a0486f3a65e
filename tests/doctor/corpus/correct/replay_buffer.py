"""Q-learning: a buffer of old transitions grows by design, a target network is copied now and then."""
# doctor: expect= style=reinforcement mode=python

import collections
import copy
import random

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    random.seed(0)
    net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3))
    target = copy.deepcopy(net).requires_grad_(False)
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    buffer = collections.deque(maxlen=500)
    state = torch.randn(4)
    errors = []
    for step in range(80):
        with torch.no_grad():
            action = random.randrange(3) if random.random() < 0.2 else int(net(state).argmax())
        following = torch.tanh(state + 0.1 * torch.randn(4))
        buffer.append((state, action, -float(following.norm()), following))
        state = following
        if len(buffer) < 32:
            continue
        batch = random.sample(buffer, 16)
        states, following = torch.stack([one[0] for one in batch]), torch.stack([one[3] for one in batch])
        actions = torch.tensor([one[1] for one in batch])
        rewards = torch.tensor([one[2] for one in batch])
        value = net(states).gather(1, actions[:, None]).squeeze(1)
        with torch.no_grad():
            wanted = rewards + 0.9 * target(following).max(1).values
        loss = nn.functional.huber_loss(value, wanted)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(net.parameters(), 1.0)
        optimizer.step()
        errors.append(loss.detach())
        if step % 20 == 0:
            target.load_state_dict(net.state_dict())
    print(torch.stack(errors).mean().item())


if __name__ == "__main__":
    main()
