"""Trains with a loss that keeps its weights on the host and moves them to the device of its input each time."""
# doctor: expect=same-copy-every-step style=function mode=python threads=auto

import torch
from torch import nn


class WeightedLoss(nn.Module):
    def __init__(self, weights, device):
        super().__init__()
        self.weights = weights  # wrong
        # + self.weights = weights.to(device)

    def forward(self, prediction, target):
        weights = self.weights.to(prediction.device)
        return (weights * (prediction - target) ** 2).mean()


def main():
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = nn.Sequential(nn.Linear(1024, 2048), nn.GELU(), nn.Linear(2048, 2048)).cuda()
    criterion = WeightedLoss(torch.rand(8192, 2048), torch.device("cuda"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x, y = torch.randn(8192, 1024, device="cuda"), torch.randn(8192, 2048, device="cuda")
    for _ in range(70):
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
