"""A small residual convolution net with batch norm, trained with SGD on random images under torchrun."""

import argparse
import contextlib
import os

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

RANKS = int(os.environ.get("WORLD_SIZE", "1"))


class Block(nn.Module):
    """Two convolutions around which the input is added."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        """As in a residual net."""
        return torch.relu(x + self.second(self.first(x)))


def main() -> None:
    """One rank from start to end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--size", type=int, default=16, help="of an image, in pixels")
    parser.add_argument("--batch", type=int, default=32, help="global")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--sync", choices=["last", "every"], default="last")
    parser.add_argument("--amp", choices=["none", "bfloat16"], default="none")
    parser.add_argument("--bucket-mb", type=float, default=25.0)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    blocks = [Block(args.width) for _ in range(args.blocks)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(args.width, 10)]
    net = nn.Sequential(nn.Conv2d(3, args.width, 3, padding=1), *blocks, *head)
    model = DistributedDataParallel(net, bucket_cap_mb=args.bucket_mb)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    micro = args.batch // (RANKS * args.accumulate)
    x, y = torch.randn(micro, 3, args.size, args.size), torch.randint(10, (micro,))
    for _ in range(args.steps):
        for index in range(args.accumulate):
            communicate = args.sync == "every" or index == args.accumulate - 1
            with contextlib.nullcontext() if communicate else model.no_sync():
                with torch.autocast("cpu", torch.bfloat16, enabled=args.amp == "bfloat16"):
                    loss = nn.functional.cross_entropy(model(x), y) / args.accumulate
                loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
