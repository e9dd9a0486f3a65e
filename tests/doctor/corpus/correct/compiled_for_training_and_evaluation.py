"""A compiled model that is compiled twice: with gradients, and without for evaluation after each epoch."""
# doctor: expect= style=function mode=python

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4))
    compiled = torch.compile(model, backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(3):
        model.train()
        for size in (8, 8, 8, 8, 5):
            x, y = torch.randn(size, 16), torch.randint(0, 4, (size,))
            loss = nn.functional.cross_entropy(compiled(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            accuracy = (compiled(torch.randn(32, 16)).argmax(dim=1) == 0).float().mean()
    print(f"accuracy {accuracy.item():.3f}")


if __name__ == "__main__":
    main()
