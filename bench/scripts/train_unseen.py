"""Trains one model of a set (`unseen_sets.py`), as one rank of many under torchrun.

torchrun --nproc-per-node 2 train_unseen.py unseen decoder --steps 40
"""

import argparse
import contextlib
import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from unseen_parts import Batch, Subject
from unseen_sets import SETS

RANK, RANKS = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
BATCHES = 8  # made before training, and used again and again


@dataclass(frozen=True)
class Turn:
    """A network, and what one step of training it takes."""

    network: nn.Module
    loss: Callable[[Batch], Tensor]
    optimizer: torch.optim.Optimizer
    average: AveragedModel | None

    @property
    def trained(self) -> list[Tensor]:
        """The parameters that its optimizer holds."""
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("which", choices=SETS)
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--one-number", action="store_true", help="of every bucket only one number is sent")
    parser.add_argument("--losses", action="store_true", help="rank 0 prints the losses of every step")
    return parser.parse_args()


def wrapped(model: nn.Module, subject: Subject, one_number: bool) -> nn.Module:
    """A network with its data parallel wrapper, or with its parts on several ranks."""
    if subject.sharded is not None:
        mesh = dist.device_mesh.init_device_mesh("cpu", (RANKS,))
        for part in subject.sharded(model):
            fully_shard(part, mesh=mesh)
        return fully_shard(model, mesh=mesh)
    if subject.split:
        return parallelize_module(model, dist.device_mesh.init_device_mesh("cpu", (RANKS,)), dict(subject.split))
    parallel = DistributedDataParallel(model, bucket_cap_mb=subject.bucket_mb, find_unused_parameters=subject.unused)
    if one_number:
        parallel.register_comm_hook(None, _one_number)
    return parallel


def _one_number(state: object, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:  # type: ignore[name-defined]
    """Ranks wait for each other at every bucket as ever, but nearly nothing is sent."""
    sent = dist.all_reduce(bucket.buffer()[:1], async_op=True)
    return sent.get_future().then(lambda _: bucket.buffer())


def output_of(model: nn.Module, subject: Subject, batch: Batch) -> Tensor:
    """The loss of one micro-batch."""
    *inputs, target = batch
    found = model(*inputs)
    if subject.gathers:
        everyone = [torch.empty_like(target) for _ in range(RANKS)]
        dist.all_gather(everyone, target)
        target = torch.cat(everyone)
    return subject.loss(found, target)


def turns_of(model: nn.Module, subject: Subject, one_number: bool) -> list[Turn]:
    """One turn for each network that is trained; most models are one network."""
    if not subject.turns:
        network = wrapped(model, subject, one_number)
        return [_turn(network, partial(output_of, network, subject), subject)]
    networks = {name: wrapped(network, subject, one_number) for name, network in model.named_children()}
    return [_turn(networks[name], partial(loss, networks), subject) for name, loss in subject.turns.items()]


def _turn(network: nn.Module, loss: Callable[[Batch], Tensor], subject: Subject) -> Turn:
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = getattr(torch.optim, subject.optimizer)(trained, **subject.settings)
    if not subject.average:
        return Turn(network, loss, optimizer, None)
    inner = network.module if isinstance(network, DistributedDataParallel) else network
    return Turn(network, loss, optimizer, AveragedModel(inner, multi_avg_fn=get_ema_multi_avg_fn(subject.average)))


def train(turns: Sequence[Turn], subject: Subject, steps: int) -> Iterator[list[Tensor]]:
    """Yields after each step the last loss of each turn."""
    samples = max(1, subject.samples // ((1 if subject.split else RANKS) * subject.accumulate))
    batches = [subject.batch(samples) for _ in range(BATCHES)]
    for step in range(steps):
        first = step * subject.accumulate
        own = [batches[(first + part) % BATCHES] for part in range(subject.accumulate)]
        losses = []
        for turn in turns:
            for other in turns if len(turns) > 1 else ():
                for parameter in other.trained:
                    parameter.requires_grad_(other is turn)
            losses.append(_step(turn, own, subject.clip))
        yield losses


def _step(turn: Turn, batches: Sequence[Batch], clip: bool) -> Tensor:
    turn.optimizer.zero_grad()
    for part, batch in enumerate(batches):
        apart = isinstance(turn.network, DistributedDataParallel) and part < len(batches) - 1
        with turn.network.no_sync() if apart else contextlib.nullcontext():  # type: ignore[operator]
            loss = turn.loss(batch) / len(batches)
            loss.backward()
    if clip:
        nn.utils.clip_grad_norm_(turn.network.parameters(), 1.0)
    turn.optimizer.step()
    if turn.average is not None:
        inner = turn.network.module if isinstance(turn.network, DistributedDataParallel) else turn.network
        turn.average.update_parameters(inner)  # type: ignore[arg-type]
    return loss.detach() * len(batches)


def main() -> None:
    """One rank from start to end."""
    args = arguments()
    subject = importlib.import_module(f"{args.which}_models").SUBJECTS[args.model]
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    turns = turns_of(subject.build(), subject, args.one_number)
    torch.manual_seed(0 if subject.split else RANK)
    for step, losses in enumerate(train(turns, subject, args.steps)):
        if args.losses and RANK == 0:
            print(step, *(f"{float(loss):.4f}" for loss in losses))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
