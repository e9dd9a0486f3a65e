"""Trains and logs the loss in every step; the logger formats the tensor, and so waits for the GPU."""
# doctor: expect=read-every-step style=function mode=python threads=auto

import io
import logging

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    log = logging.getLogger("train")
    log.addHandler(logging.StreamHandler(io.StringIO()))
    log.setLevel(logging.INFO)
    layers = [layer for _ in range(24) for layer in (nn.Linear(512, 512), nn.GELU())]
    model = nn.Sequential(*layers, nn.Linear(512, 8)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x, y = torch.randn(32768, 512, device="cuda"), torch.randn(32768, 8, device="cuda")
    checked = 0
    for step in range(90):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.info("step %d loss %s", step, loss.detach())  # wrong
        # + if step % 45 == 44:
        # +     log.info("step %d loss %s", step, loss.detach())
        checked += sum(index % 7 for index in range(60_000))  # work of the host: the GPU should be busy meanwhile
    print(f"loss {loss.item():.4f}, {checked}")


if __name__ == "__main__":
    main()
