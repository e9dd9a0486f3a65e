"""Stops a step's update when the gradient is too large, and keeps predictions of every step on the host."""

# doctor: expect=read-every-step style=while on=cpu mode=python
import torch
from torch import nn

DEVICE = "cuda"


class Learner:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 3)).to(DEVICE)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=2e-3)
        self.right = []

    def learn(self, x, y):
        logits = self.net(x)
        loss = nn.functional.cross_entropy(logits, y)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.opt.step()
        self.right.append((logits.argmax(1) == y).float().mean().cpu())  # wrong
        #+ self.right.append((logits.argmax(1) == y).float().mean())


if __name__ == "__main__":
    torch.manual_seed(0)
    learner = Learner()
    steps = 0
    while steps < 16:
        learner.learn(torch.randn(8, 12, device=DEVICE), torch.randint(0, 3, (8,), device=DEVICE))
        steps += 1
    print(f"accuracy {torch.stack(learner.right).mean().item():.3f}")
