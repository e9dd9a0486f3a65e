"""Trains a stack of Linear+ReLU layers with SGD on random data: one process, or many under torchrun.

python linear.py --dim 1024 --depth 2 --batch 64
torchrun --nproc-per-node 2 linear.py --batch 64 --accumulate 4 --amp bfloat16
"""

import argparse
import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from typing import NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

RANK = int(os.environ.get("RANK", "0"))
LOCAL_RANK = int(os.environ.get("LOCAL_RANK", "0"))
RANKS = int(os.environ.get("WORLD_SIZE", "1"))
STEPS_PER_EPOCH = 8  # of the loader


class Parser(argparse.ArgumentParser):
    """A parser that refuses in one sentence instead of a page of usage."""

    def error(self, message: str) -> NoReturn:
        """Writes one line on stderr and exits with code 2."""
        self.exit(2, f"linear.py: {message}\n")


def arguments() -> argparse.Namespace:
    """The command line, checked against the number of ranks."""
    parser = Parser(description="Trains a stack of Linear+ReLU layers on random data.")
    parser.add_argument("--dim", type=int, default=1024, help="width of every layer")
    parser.add_argument("--depth", type=int, default=2, help="number of layers")
    parser.add_argument("--batch", type=int, default=64, help="global batch: over all ranks and micro-batches")
    parser.add_argument("--steps", type=int, default=40, help="optimizer steps")
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches per optimizer step")
    parser.add_argument("--sync", choices=["last", "every"], default="last", help="all-reduce which micro-batches")
    parser.add_argument("--amp", choices=["none", "bfloat16", "float16"], default="none", help="autocast dtype")
    parser.add_argument("--scaler", choices=["auto", "on", "off"], default="auto", help="auto: for float16 only")
    parser.add_argument("--data", choices=["synthetic", "loader"], default="synthetic")
    parser.add_argument("--workers", type=int, default=0, help="processes of the loader")
    args = parser.parse_args()
    for name in ("dim", "depth", "batch", "steps", "accumulate"):
        if getattr(args, name) < 1:
            parser.error(f"--{name} must be at least 1, not {getattr(args, name)}")
    if args.workers < 0:
        parser.error(f"--workers must be 0 or more, not {args.workers}")
    parts = RANKS * args.accumulate
    if args.batch % parts:
        parser.error(
            f"--batch {args.batch} is not a multiple of {parts}, which is {RANKS} ranks x {args.accumulate} "
            f"micro-batches; try {args.batch // parts * parts or parts}"
        )
    if torch.cuda.is_available() and torch.cuda.device_count() <= LOCAL_RANK:
        parser.error(f"rank {RANK} has no GPU of its own: {torch.cuda.device_count()} visible")
    return args


def batches(args: argparse.Namespace, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    """The micro-batches of this rank, without end; all ranks together see one global batch, however many there are."""
    micro = args.batch // (RANKS * args.accumulate)
    if args.data == "synthetic":
        x, y = torch.randn(2, args.batch, args.dim)[:, RANK::RANKS].contiguous().to(device)
        while True:
            yield from zip(x.split(micro), y.split(micro), strict=True)
    dataset = TensorDataset(*torch.randn(2, args.batch * STEPS_PER_EPOCH, args.dim))
    sampler: DistributedSampler[tuple[Tensor, ...]] = DistributedSampler(dataset, RANKS, RANK)
    persistent = args.workers > 0
    loader = DataLoader(dataset, micro, sampler=sampler, num_workers=args.workers, persistent_workers=persistent)
    for epoch in itertools.count():
        sampler.set_epoch(epoch)
        for x, y in loader:
            yield x.to(device), y.to(device)


def without_sync(model: nn.Module) -> contextlib.AbstractContextManager[None]:
    """A context without DDP's all-reduce; forward and backward must both be inside, as DDP decides in forward."""
    return model.no_sync() if isinstance(model, DistributedDataParallel) else contextlib.nullcontext()


def train(args: argparse.Namespace, device: torch.device) -> None:
    """Runs the training loop; everything that communicates with other ranks is freed when it returns."""
    torch.manual_seed(0)
    layers = [layer for _ in range(args.depth) for layer in (nn.Linear(args.dim, args.dim), nn.ReLU())]
    model: nn.Module = nn.Sequential(*layers).to(device)
    if RANKS > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    dtype = None if args.amp == "none" else getattr(torch, args.amp)
    scale = args.scaler == "on" or (args.scaler == "auto" and dtype is torch.float16)
    scaler = torch.amp.GradScaler(device.type, enabled=scale)
    data = batches(args, device)

    for step in range(args.steps):
        start, total = time.perf_counter(), 0.0
        for micro in range(args.accumulate):
            x, y = next(data)
            communicate = args.sync == "every" or micro == args.accumulate - 1
            with contextlib.nullcontext() if communicate else without_sync(model):
                with torch.autocast(device.type, dtype, enabled=dtype is not None):
                    loss = nn.functional.mse_loss(model(x), y) / args.accumulate
                scaler.scale(loss).backward()
            total += loss.item()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if device.type == "cuda":
            torch.cuda.synchronize()
        if RANK == 0:
            print(f"step {step} {(time.perf_counter() - start) * 1000:.2f} ms, loss {total:.6f}", flush=True)


def main() -> None:
    """Runs one rank from start to end."""
    args = arguments()
    device = torch.device("cuda", LOCAL_RANK) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if RANKS > 1:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    train(args, device)
    if RANKS > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
