"""Trains a network of many small layers on batches that leave the GPU idle between two kernels."""
# doctor: expect=launch-bound style=function mode=python threads=auto

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.silu(self.up(self.norm(x))) * 0.5)


def main():
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = nn.Sequential(*[Block(256) for _ in range(24)], nn.Linear(256, 8)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    batch_size = 64  # wrong
    # + batch_size = 65536
    x, y = torch.randn(batch_size, 256, device="cuda"), torch.randn(batch_size, 8, device="cuda")
    for _ in range(80):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
