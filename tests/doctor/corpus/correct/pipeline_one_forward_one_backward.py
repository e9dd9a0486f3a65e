"""Two stages over messages in the 1F1B order: the first is one piece ahead, then a backward follows each forward."""

# doctor: expect= style=pipeline
import torch
import torch.distributed as dist
from torch import nn

PIECES, ROWS, WIDTH = 6, 4, 20


def forward(stage, piece):
    output = stage(piece)
    return output, dist.isend(output.detach(), dst=1)


def backward(output, sent):
    gradient = torch.empty_like(output)
    dist.recv(gradient, src=1)
    sent.wait()
    output.backward(gradient)


def first(stage, pieces):
    """Keeps two pieces in flight."""
    waiting = [forward(stage, pieces[0])]
    for piece in pieces[1:]:
        waiting.append(forward(stage, piece))
        backward(*waiting.pop(0))
    backward(*waiting.pop(0))


def second(stage, targets):
    for target in targets:
        given = torch.empty(ROWS, WIDTH)
        dist.recv(given, src=0)
        given.requires_grad_()
        (nn.functional.mse_loss(stage(given), target) / PIECES).backward()
        dist.send(given.grad, dst=0)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    stage = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.05)
    data = torch.Generator().manual_seed(11)
    for _ in range(5):
        pieces = torch.randn(PIECES * ROWS, WIDTH, generator=data).chunk(PIECES)
        (first if rank == 0 else second)(stage, pieces)
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
