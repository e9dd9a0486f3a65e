"""Trains with anomaly detection, which was switched on to find a NaN that is long gone."""
# doctor: expect=debugging-left-on style=function mode=python threads=auto

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    torch.autograd.set_detect_anomaly(True)  # wrong
    # + torch.autograd.set_detect_anomaly(False)
    layers = [layer for _ in range(12) for layer in (nn.Linear(1024, 1024), nn.GELU())]
    model = nn.Sequential(*layers, nn.Linear(1024, 8)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x, y = torch.randn(16384, 1024, device="cuda"), torch.randn(16384, 8, device="cuda")
    for _ in range(70):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
