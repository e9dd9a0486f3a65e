"""Trains one model of the validation or the development set, as one rank of many under torchrun.

torchrun --nproc-per-node 2 train_unseen.py unseen decoder --steps 40
"""

import argparse
import contextlib
import importlib
import os

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from unseen_parts import Batch, Subject

RANK, RANKS = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
BATCHES = 8  # made before training, and used again and again


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("which", choices=["unseen", "development"])
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--one-number", action="store_true", help="of every bucket only one number is sent")
    return parser.parse_args()


def wrapped(subject: Subject, one_number: bool) -> nn.Module:
    """The model with its data parallel wrapper."""
    model = subject.build()
    if subject.sharded:
        for child in model.children():
            if any(True for _ in child.parameters()):
                fully_shard(child, mesh=dist.device_mesh.init_device_mesh("cpu", (RANKS,)))
        return fully_shard(model, mesh=dist.device_mesh.init_device_mesh("cpu", (RANKS,)))
    if subject.split:
        plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        return parallelize_module(model, dist.device_mesh.init_device_mesh("cpu", (RANKS,)), plan)
    parallel = DistributedDataParallel(model, bucket_cap_mb=subject.bucket_mb, find_unused_parameters=subject.unused)
    if one_number:
        parallel.register_comm_hook(None, _one_number)
    return parallel


def _one_number(state: object, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:  # type: ignore[name-defined]
    """Ranks wait for each other at every bucket as ever, but nearly nothing is sent."""
    sent = dist.all_reduce(bucket.buffer()[:1], async_op=True)
    return sent.get_future().then(lambda _: bucket.buffer())


def output_of(model: nn.Module, batch: Batch, subject: Subject) -> Tensor:
    """The loss of one micro-batch."""
    *inputs, target = batch
    found = model(*inputs)
    if subject.gathers:
        everyone = [torch.empty_like(target) for _ in range(RANKS)]
        dist.all_gather(everyone, target)
        target = torch.cat(everyone)
    return subject.loss(found, target) / subject.accumulate


def train(model: nn.Module, subject: Subject, steps: int) -> None:
    """All steps."""
    optimizer = getattr(torch.optim, subject.optimizer)(model.parameters(), lr=1e-3)
    samples = max(1, subject.samples // ((1 if subject.split else RANKS) * subject.accumulate))
    batches = [subject.batch(samples) for _ in range(BATCHES)]
    for step in range(steps):
        optimizer.zero_grad()
        for part in range(subject.accumulate):
            last = part == subject.accumulate - 1
            apart = isinstance(model, DistributedDataParallel) and not last
            with model.no_sync() if apart else contextlib.nullcontext():  # type: ignore[operator]
                output_of(model, batches[(step * subject.accumulate + part) % BATCHES], subject).backward()
        if subject.clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def main() -> None:
    """One rank from start to end."""
    args = arguments()
    subject = importlib.import_module(f"{args.which}_models").SUBJECTS[args.model]
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = wrapped(subject, args.one_number)
    torch.manual_seed(0 if subject.split else RANK)
    train(model, subject, args.steps)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
