"""Reinforcement learning: no dataset, a rollout without gradients, several passes over it, sums over episodes."""
# doctor: expect= style=reinforcement

import torch
import torch.distributed as dist
from torch import nn
from torch.distributions import Categorical
from torch.nn.parallel import DistributedDataParallel as DDP


class Walk:
    """Go to the middle of a line; seeded apart on every rank."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def reset(self):
        self.place = torch.rand(1, generator=self.generator) * 2 - 1
        return self.state()

    def step(self, action):
        self.place = self.place + (0.2 if action else -0.2)
        return self.state(), -float(self.place.abs())

    def state(self):
        return torch.cat([self.place, self.place**2])


@torch.no_grad()
def rollout(policy, env, length=12):
    states, actions, rewards = [], [], []
    state = env.reset()
    for _ in range(length):
        action = Categorical(logits=policy(state)).sample()
        states.append(state)
        actions.append(action)
        state, reward = env.step(int(action))
        rewards.append(reward)
    returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
    return torch.stack(states), torch.stack(actions), (returns - returns.mean()) / (returns.std() + 1e-6)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    model = DDP(policy)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    torch.manual_seed(77 + rank)
    env = Walk(seed=500 + rank)
    for _ in range(6):
        states, actions, advantages = rollout(policy, env)
        for _ in range(2):
            chosen = Categorical(logits=model(states))
            loss = -(chosen.log_prob(actions) * advantages).mean() - 0.01 * chosen.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
