"""A pipeline of two stages over send and recv: activations forward, gradients back, four micro-batches in flight."""
# doctor: expect= style=pipeline

import torch
import torch.distributed as dist
from torch import nn

MICRO_BATCHES = 4
ROWS = 8
WIDTH = 32


def first_stage(stage, optimizer, inputs):
    outputs = []
    for chunk in inputs.chunk(MICRO_BATCHES):
        out = stage(chunk)
        dist.send(out.detach(), dst=1)
        outputs.append(out)
    for out in outputs:
        gradient = torch.empty_like(out)
        dist.recv(gradient, src=1)
        out.backward(gradient)
    optimizer.step()
    optimizer.zero_grad()


def last_stage(stage, optimizer, targets):
    received = []
    for _ in range(MICRO_BATCHES):
        activation = torch.empty(ROWS, WIDTH)
        dist.recv(activation, src=0)
        received.append(activation.requires_grad_())
    for activation, target in zip(received, targets.chunk(MICRO_BATCHES)):
        loss = nn.functional.cross_entropy(stage(activation), target) / MICRO_BATCHES
        loss.backward()
        dist.send(activation.grad, dst=0)
    optimizer.step()
    optimizer.zero_grad()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    if rank == 0:
        stage = nn.Sequential(nn.Linear(16, WIDTH), nn.ReLU())
    else:
        stage = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(42)
    for _ in range(8):
        inputs = torch.randn(MICRO_BATCHES * ROWS, 16, generator=data)
        targets = torch.randint(0, 3, (MICRO_BATCHES * ROWS,), generator=data)
        if rank == 0:
            first_stage(stage, optimizer, inputs)
        else:
            last_stage(stage, optimizer, targets)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
