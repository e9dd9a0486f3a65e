"""A Trainer that counts micro-batches anew in each epoch, evaluates, and goes on with gradients that were left over."""
# doctor: expect=window-leaks style=trainer mode=python

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Trainer:
    def __init__(self, model, train, valid, every):
        self.model, self.every = model, every
        self.train_loader = DataLoader(train, batch_size=6, shuffle=True)
        self.valid_loader = DataLoader(valid, batch_size=16)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def update(self):
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def train_epoch(self):
        self.model.train()
        waiting = 0
        for features, target in self.train_loader:
            loss = nn.functional.l1_loss(self.model(features), target) / self.every
            loss.backward()
            waiting += 1
            if waiting == self.every:
                self.update()
                waiting = 0
        #+ if waiting:
        #+     self.update()

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        return sum(nn.functional.l1_loss(self.model(x), y).item() for x, y in self.valid_loader)

    def fit(self, epochs):
        best = float("inf")
        for _ in range(epochs):
            self.train_epoch()
            best = min(best, self.evaluate())
        return best


if __name__ == "__main__":
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(200, 10), torch.randn(200, 1))
    train_set, valid_set = random_split(data, [150, 50])
    network = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    print(f"best {Trainer(network, train_set, valid_set, every=3).fit(4):.3f}")
