"""Trains the course's LargeLinear, a chain of Linear and ReLU layers, on one batch, in one process.

python large_linear.py --dim 512 --depth 4 --batch 64

`--seed -1` seeds nothing, `--sum` sums the loss instead of averaging it.
"""

import argparse
import os

import torch
from torch import Tensor, nn


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--optimizer", choices=["SGD", "Adam"], default="Adam")
    parser.add_argument("--sum", action="store_true")
    parser.add_argument("--save", help="the parameters go into SAVE-PROCESS.pt")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


class LargeLinearModel(nn.Module):
    def __init__(self, dim: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*[nn.Sequential(nn.Linear(dim, dim), nn.ReLU()) for _ in range(depth)])

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def main() -> None:
    args = arguments()
    if args.seed >= 0:
        torch.manual_seed(args.seed)
    model = LargeLinearModel(args.dim, args.depth).to(args.device)
    loss_fn = nn.MSELoss(reduction="sum" if args.sum else "mean")
    optimizer = getattr(torch.optim, args.optimizer)(model.parameters(), lr=1e-6 if args.sum else 1e-3)
    x, y = (torch.randn(args.batch, args.dim).to(args.device) for _ in range(2))
    for step in range(args.steps):
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}", flush=True)
    if args.save:
        torch.save(model.state_dict(), f"{args.save}-{os.getpid()}.pt")


if __name__ == "__main__":
    main()
