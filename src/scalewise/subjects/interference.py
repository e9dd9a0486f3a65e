"""Times computing and an all-reduce, alone and both at once, and two all-reduces: what they cost each other.

torchrun --nproc-per-node 2 interference.py --sizes 1048576,4194304,16777216 --repeats 8

Every five steps belong together: nothing at all, computing alone, the all-reduce alone, computing while the all-reduce
is under way, two all-reduces at once. The time of the empty step is in all the others, too. What is sent has just been
copied from a buffer elsewhere, as DDP copies gradients into its bucket.
"""

import argparse
import os
import time
from typing import NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn

RANK = int(os.environ.get("RANK", "0"))
RANKS = int(os.environ.get("WORLD_SIZE", "1"))
FLOAT_BYTES = 4
WIDTH, ROWS = 1024, 64  # of the layers that are computed
KINDS = ((False, 0), (True, 0), (False, 1), (True, 1), (False, 2))  # of steps: computing or not, so many all-reduces
LEAST_LAYERS = 4
LONGER = 1.5  # computing lasts so many times as long as the all-reduce, so that it covers all of it


class Parser(argparse.ArgumentParser):
    """A parser that refuses in one sentence instead of a page of usage."""

    def error(self, message: str) -> NoReturn:
        """Writes one line on stderr and exits with code 2."""
        self.exit(2, f"interference.py: {message}\n")


def arguments() -> argparse.Namespace:
    """The command line, checked against the number of ranks."""
    parser = Parser(description="Computes and all-reduces, alone and at once.")
    parser.add_argument("--sizes", default="1048576,4194304,16777216", help="bytes, with commas between")
    parser.add_argument("--repeats", type=int, default=8, help="of each size; the first warms up")
    parser.add_argument("--seconds", type=float, help="no round begins later")
    args = parser.parse_args()
    if args.seconds is not None and not args.seconds > 0:
        parser.error(f"--seconds must be more than 0, not {args.seconds:g}")
    parts = args.sizes.split(",")
    if not all(part.isdecimal() and int(part) >= FLOAT_BYTES for part in parts):
        parser.error(f"--sizes {args.sizes!r} is not a list of bytes")
    args.sizes = [int(part) for part in parts]
    if args.repeats < 2:
        parser.error(f"--repeats must be at least 2, for the first of each size warms up, not {args.repeats}")
    if RANKS < 2:
        parser.error("an all-reduce needs 2 ranks or more; start it by torchrun --nproc-per-node 2")
    return args


class MatrixProducts(nn.Module):
    """The layers of a training step: a product with a weight that does not stay in the cache, and its gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Parameter(torch.ones(1))
        self.weights = [torch.randn(WIDTH, WIDTH) / WIDTH**0.5 for _ in range(8)]
        self.rows = torch.randn(ROWS, WIDTH)

    def forward(self, rounds: int) -> Tensor:
        """Computes that many layers, none of them kept for backward."""
        with torch.no_grad():
            rows = self.rows
            for index in range(rounds):
                weight = self.weights[index % len(self.weights)]
                rows = torch.relu(rows @ weight)
                weight.add_(self.rows.t() @ rows, alpha=1e-9)
        return self.one.sum()


def rounds_for(work: MatrixProducts, message: Tensor) -> int:
    """The number of layers that last long enough beside this message, the same on every rank."""
    marks = []
    for _ in range(2):  # the first warms up
        marks = [time.perf_counter()]
        dist.all_reduce(message)
        marks.append(time.perf_counter())
        work(16)
        marks.append(time.perf_counter())
    reducing, computing = marks[1] - marks[0], marks[2] - marks[1]
    found = torch.tensor([max(LEAST_LAYERS, round(16 * LONGER * reducing / computing))])
    dist.broadcast(found, 0)
    return int(found)


def over(end: float, round_: int) -> bool:
    """Tells whether rank 0 says that time is over; three rounds are always made, as the first warms up."""
    told = torch.tensor([float(time.monotonic() > end and round_ > 2)])
    dist.broadcast(told, 0)
    return bool(told.item())


def train(args: argparse.Namespace) -> None:
    """Goes through all sizes in rounds, so that a drift of the machine affects all of them alike."""
    torch.manual_seed(RANK)
    work, opener = MatrixProducts(), nn.Linear(1, 1)
    optimizer = torch.optim.SGD([*work.parameters(), *opener.parameters()], lr=1e-9)
    pairs = [torch.ones(2, size // FLOAT_BYTES) for size in args.sizes]
    rounds = [rounds_for(work, pair[0]) for pair in pairs]
    gradients = torch.ones(max(len(pair[0]) for pair in pairs))
    end = None if args.seconds is None else time.monotonic() + args.seconds
    for round_ in range(args.repeats):
        if end is not None and over(end, round_):
            break
        for pair, layers in zip(pairs, rounds, strict=True):
            for computes, reduces in KINDS:
                for message in pair[:reduces]:
                    message.copy_(gradients[: len(message)])
                dist.barrier()
                loss = opener(torch.ones(1, 1)).sum()  # the step begins here
                handles = [dist.all_reduce(message, async_op=True) for message in pair[:reduces]]
                if computes:
                    loss = loss + work(layers)
                loss.backward()
                for handle in handles:
                    handle.wait()
                optimizer.step()
                optimizer.zero_grad()


def main() -> None:
    """Runs one rank from start to end."""
    args = arguments()
    dist.init_process_group("gloo")
    train(args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
