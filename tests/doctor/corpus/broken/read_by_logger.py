"""Logs the loss in every step; the logger turns the tensor into text."""
# doctor: expect=read-every-step style=function mode=python on=cpu

import io
import logging

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    log = logging.getLogger("train")
    log.addHandler(logging.StreamHandler(io.StringIO()))
    log.setLevel(logging.INFO)
    model = nn.Linear(16, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(20):
        x, y = torch.randn(8, 16, device="cuda"), torch.randint(0, 4, (8,), device="cuda")
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.info("loss %s", loss.detach())  # wrong
        #+ log.info("step %d: %s", step, loss.detach() if step % 10 == 0 else "")


if __name__ == "__main__":
    main()
