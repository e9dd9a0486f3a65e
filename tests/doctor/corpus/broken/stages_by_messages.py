"""Three ranks hold a third of the network each; every micro-batch goes all the way and back before the next."""

# doctor: expect=one-device-at-a-time style=functions ranks=3
import torch
import torch.distributed as dist
from torch import nn

PIECES, ROWS, WIDTH = 4, 8, 24


def ahead(stage, given, rank, last):
    """One piece forward through this rank; gives its input and output."""
    if rank > 0:
        given = torch.empty(ROWS, WIDTH)
        dist.recv(given, src=rank - 1)
        given.requires_grad_()
    output = stage(given)
    if not last:
        dist.send(output.detach(), dst=rank + 1)
    return given, output


def back(given, output, target, rank, last):
    """The same piece backward."""
    if last:
        (nn.functional.mse_loss(output, target) / PIECES).backward()
    else:
        gradient = torch.empty_like(output)
        dist.recv(gradient, src=rank + 1)
        output.backward(gradient)
    if rank > 0:
        dist.send(given.grad, dst=rank - 1)


def main():
    dist.init_process_group("gloo")
    rank, last = dist.get_rank(), dist.get_rank() == dist.get_world_size() - 1
    torch.manual_seed(rank)
    stage = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(5)
    for _ in range(6):
        batch = torch.randn(PIECES * ROWS, WIDTH, generator=data)
        pieces = batch.chunk(PIECES)
        for piece in pieces:  # wrong
            given, output = ahead(stage, piece, rank, last)  # wrong
            back(given, output, piece, rank, last)  # wrong
        #+ passed = [ahead(stage, piece, rank, last) for piece in pieces]
        #+ for (given, output), piece in zip(passed, pieces, strict=True):
            #+ back(given, output, piece, rank, last)
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
