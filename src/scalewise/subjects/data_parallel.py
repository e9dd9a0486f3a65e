"""Trains a stack of Linear+ReLU layers under nn.DataParallel: one process drives every visible GPU.

    python data_parallel.py --dim 1024 --batch 64

On a machine without GPUs DataParallel only calls the module, so the times are those of one device.
"""

import argparse
import time
from typing import NoReturn

import torch
from torch import nn


class Parser(argparse.ArgumentParser):
    """A parser that refuses in one sentence instead of a page of usage."""

    def error(self, message: str) -> NoReturn:
        """Writes one line on stderr and exits with code 2."""
        self.exit(2, f"data_parallel.py: {message}\n")


def arguments() -> argparse.Namespace:
    """The command line, checked against the visible GPUs."""
    parser = Parser(description="Trains a stack of Linear+ReLU layers with nn.DataParallel.")
    parser.add_argument("--dim", type=int, default=1024, help="width of every layer")
    parser.add_argument("--depth", type=int, default=2, help="number of layers")
    parser.add_argument("--batch", type=int, default=64, help="global batch, scattered over the GPUs")
    parser.add_argument("--steps", type=int, default=40, help="optimizer steps")
    args = parser.parse_args()
    for name, value in vars(args).items():
        if value < 1:
            parser.error(f"--{name} must be at least 1, not {value}")
    gpus = max(1, torch.cuda.device_count())
    if args.batch % gpus:
        parser.error(f"--batch {args.batch} cannot be shared evenly by {gpus} GPUs; take a multiple of {gpus}")
    return args


def main() -> None:
    """Scatters, replicates and gathers once per step, from the first GPU."""
    args = arguments()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    layers = [layer for _ in range(args.depth) for layer in (nn.Linear(args.dim, args.dim), nn.ReLU())]
    model = nn.DataParallel(nn.Sequential(*layers).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(2, args.batch, args.dim, device=device)

    for step in range(args.steps):
        start = time.perf_counter()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        # Reading the loss waits for the device, so the time below covers the whole step.
        value = loss.item()
        print(f"step {step} {(time.perf_counter() - start) * 1000:.2f} ms, loss {value:.6f}", flush=True)


if __name__ == "__main__":
    main()
