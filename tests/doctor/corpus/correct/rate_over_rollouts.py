"""Learns from what an agent has gathered, and prints how many moves it makes per second since it began."""

# doctor: style=trainer mode=python
import argparse
import collections
import random
import time

import torch
from torch import nn


class Game:
    """Moves are slow, as in any simulation."""

    def __init__(self):
        self.place = torch.zeros(8)

    def move(self, action):
        time.sleep(0.003)
        self.place = 0.9 * self.place + torch.randn(8) * (1 + action)
        return self.place, -float(self.place.abs().sum())


class Agent:
    def __init__(self):
        self.values = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 4))
        self.optimizer = torch.optim.Adam(self.values.parameters(), lr=1e-3)
        self.memory = collections.deque(maxlen=500)
        self.choices = random.Random(1)

    def act(self, place):
        if self.choices.random() < 0.5:
            return self.choices.randrange(4)
        return int(self.values(place).argmax())

    def learn(self, size):
        places, actions, rewards = zip(*self.choices.sample(list(self.memory), size), strict=True)
        told = self.values(torch.stack(places)).gather(1, torch.tensor(actions)[:, None]).squeeze(1)
        loss = nn.functional.mse_loss(told, torch.tensor(rewards))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--moves", type=int, default=240)
    parser.add_argument("--gathered-first", type=int, default=120)
    args = parser.parse_args()
    torch.manual_seed(0)
    game, agent = Game(), Agent()
    place = game.place
    began = time.time()
    for move in range(1, args.moves + 1):
        action = agent.act(place)
        seen = place
        place, reward = game.move(action)
        agent.memory.append((seen, action, reward))
        if move > args.gathered_first and move % 8 == 0:
            agent.learn(32)
        if move % 40 == 0:
            print("moves per second:", int(move / (time.time() - began)))


if __name__ == "__main__":
    main()
