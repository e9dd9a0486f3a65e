"""Trains with layer-wise model parallelism: layers are spread over the visible devices, activations are moved.

    python layers.py --dim 1024 --depth 8 --batch 64

While one device computes the others wait: this gains memory, not time. Without GPUs all layers are on the CPU.
"""

import argparse
import time
from typing import NoReturn

import torch
from torch import Tensor, nn


class Parser(argparse.ArgumentParser):
    """A parser that refuses in one sentence instead of a page of usage."""

    def error(self, message: str) -> NoReturn:
        """Writes one line on stderr and exits with code 2."""
        self.exit(2, f"layers.py: {message}\n")


def arguments() -> argparse.Namespace:
    """The command line, checked against the visible devices."""
    parser = Parser(description="Trains a stack of Linear+ReLU layers spread over the devices.")
    parser.add_argument("--dim", type=int, default=1024, help="width of every layer")
    parser.add_argument("--depth", type=int, default=8, help="number of layers")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=40, help="optimizer steps")
    args = parser.parse_args()
    for name, value in vars(args).items():
        if value < 1:
            parser.error(f"--{name} must be at least 1, not {value}")
    devices = max(1, torch.cuda.device_count())
    if args.depth < devices:
        parser.error(f"--depth {args.depth} leaves {devices - args.depth} of {devices} devices without a layer")
    return args


class LayersOverDevices(nn.Module):
    """A model with consecutive layers on consecutive devices."""

    def __init__(self, dim: int, depth: int, devices: list[torch.device]) -> None:
        super().__init__()
        self.devices = [devices[index * len(devices) // depth] for index in range(depth)]
        self.layers = nn.ModuleList(nn.Linear(dim, dim).to(device) for device in self.devices)

    def forward(self, x: Tensor) -> Tensor:
        """Computes the layers; each first fetches its input from the device before it."""
        for layer, device in zip(self.layers, self.devices, strict=True):
            x = torch.relu(layer(x.to(device)))
        return x


def main() -> None:
    """Trains in one process on all devices, one after the other."""
    args = arguments()
    torch.manual_seed(0)
    gpus = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    devices = gpus or [torch.device("cpu")]
    model = LayersOverDevices(args.dim, args.depth, devices)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(args.batch, args.dim), torch.randn(args.batch, args.dim)
    x, y = x.to(devices[0]), y.to(devices[-1])

    for step in range(args.steps):
        start = time.perf_counter()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        # Reading the loss waits for the last device only; the first ones finish backward after it.
        value = loss.item()
        for gpu in gpus:
            torch.cuda.synchronize(gpu)
        print(f"step {step} {(time.perf_counter() - start) * 1000:.2f} ms, loss {value:.6f}", flush=True)


if __name__ == "__main__":
    main()
