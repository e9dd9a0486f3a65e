"""Trains the models of small_gpt.py and large_linear.py by strategies that are written out by hand with torch's parts.

torchrun --nproc-per-node 2 by_hand.py gpt fsdp2 --steps 4 --save FOLDER

Each strategy trains on the batches of the script on one device, cut into equal parts. With `--save` each rank
writes the parameters that it has, whole and by their names in the model.
"""

import argparse
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import large_linear
import small_gpt
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

Batch = tuple[Tensor, Tensor]
Step = Callable[[Tensor, Tensor], Tensor]  # one optimizer step over the global batch -> the loss, where a rank knows it


@dataclass(frozen=True)
class Task:
    """A model, its data, and the choices that a person makes to spread it."""

    model: Callable[[], nn.Module]
    batches: Callable[[int], Iterable[Batch]]
    loss: Callable[[Tensor, Tensor], Tensor]
    optimizer: type[torch.optim.Optimizer]
    settings: dict[str, object]
    units: Callable[[nn.Module], list[nn.Module]]  # what FSDP gathers at a time
    plan: Callable[[nn.Module], dict[str, ParallelStyle]]
    stage: Callable[[nn.Module, int, int], nn.Module]
    clip: float = 0.0


class Chain(nn.Module):
    """The layers of a stage of LargeLinear, under the names that they have in the whole model."""

    def __init__(self, model: nn.Module, kept: range) -> None:
        super().__init__()
        self.layers = model.layers
        for number in range(len(self.layers)):
            if number not in kept:
                self.layers[number] = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class PartOfGPT(nn.Module):
    """A stage of the GPT: the first has the embeddings, the last the head."""

    def __init__(self, model: nn.Module, kept: range, first: bool, last: bool) -> None:
        super().__init__()
        self.first, self.last = first, last
        if first:
            self.tokens, self.places = model.tokens, model.places
        self.blocks = nn.ModuleDict({str(number): model.blocks[number] for number in kept})
        if last:
            self.norm, self.head = model.norm, model.head

    def forward(self, x: Tensor) -> Tensor:
        if self.first:
            x = self.tokens(x) + self.places(torch.arange(x.size(1), device=x.device))
        for block in self.blocks.values():
            x = block(x)
        return self.head(self.norm(x)) if self.last else x


def share(layers: int, rank: int, ranks: int) -> range:
    return range(layers * rank // ranks, layers * (rank + 1) // ranks)


def chain(dim: int, depth: int, batch: int, optimizer: str = "Adam") -> Task:
    """LargeLinear as large_linear.py trains it."""

    def batches(steps: int) -> Iterable[Batch]:
        x, y = torch.randn(batch, dim), torch.randn(batch, dim)
        return ((x, y) for _ in range(steps))

    def plan(model: nn.Module) -> dict[str, ParallelStyle]:
        styles = (ColwiseParallel, RowwiseParallel)
        pairs = depth // 2 * 2  # columns, then rows; a last layer without a partner stays whole
        return {f"layers.{number}.0": styles[number % 2]() for number in range(pairs)}

    return Task(
        model=lambda: large_linear.LargeLinearModel(dim, depth),
        batches=batches,
        loss=nn.MSELoss(),  # as the script has it, so that only the strategy differs
        optimizer=getattr(torch.optim, optimizer),
        settings={"lr": 1e-3},
        units=lambda model: list(model.layers),
        plan=plan,
        stage=lambda model, rank, ranks: Chain(model, share(depth, rank, ranks)),
    )


def gpt(width: int, layers: int, heads: int, length: int, batch: int, tied: bool = False, clip: float = 0.0) -> Task:
    """The GPT as small_gpt.py trains it, but with a constant rate and one group of parameters."""

    def batches(steps: int) -> Iterable[Batch]:
        data = small_gpt.text()
        return (small_gpt.windows(data, batch, length) for _ in range(steps))

    def plan(model: nn.Module) -> dict[str, ParallelStyle]:
        styles: dict[str, ParallelStyle] = {}
        for number in range(layers):
            styles[f"blocks.{number}.mlp.0"] = ColwiseParallel()
            styles[f"blocks.{number}.mlp.2"] = RowwiseParallel()
            # q, k and v lie in one matrix: a shard of it is no set of heads, so its product is gathered again.
            styles[f"blocks.{number}.attention.qkv"] = ColwiseParallel(output_layouts=Replicate())
        return styles

    return Task(
        model=lambda: Logits(small_gpt.GPT(width, layers, heads, length, tied=tied)),
        batches=batches,
        loss=lambda logits, y: F.cross_entropy(logits.view(-1, small_gpt.VOCABULARY), y.view(-1)),
        optimizer=torch.optim.AdamW,
        settings={"lr": 1e-3, "betas": (0.9, 0.95)},
        units=lambda model: list(model.gpt.blocks),
        plan=lambda model: {f"gpt.{name}": style for name, style in plan(model).items()},
        stage=lambda model, rank, ranks: PartOfGPT(model.gpt, share(layers, rank, ranks), rank == 0, rank == ranks - 1),
        clip=clip,
    )


class Logits(nn.Module):
    """The GPT without its loss."""

    def __init__(self, gpt: nn.Module) -> None:
        super().__init__()
        self.gpt = gpt

    def forward(self, x: Tensor) -> Tensor:
        logits, _ = self.gpt(x)
        return logits


def clip(parameters: Iterable[nn.Parameter], limit: float, stages: bool) -> None:
    """Clips by the norm of the whole model's gradient, of which a rank may have shards or a stage."""
    gradients = [one.grad for one in parameters if one.grad is not None]
    squares = sum(
        ((one.full_tensor() if isinstance(one, DTensor) else one).square().sum() for one in gradients), torch.zeros(())
    )
    if stages:
        dist.all_reduce(squares)
    factor = torch.clamp(limit / (squares.sqrt() + 1e-6), max=1.0)
    for one in gradients:
        one.mul_(factor)


def ordinary(task: Task, model: nn.Module, optimizer: torch.optim.Optimizer, parts: int = 1, rank: int = 0) -> Step:
    """A step on this rank's part of the batch, by forward and backward of the whole model."""

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = task.loss(model(x.chunk(parts)[rank]), y.chunk(parts)[rank])
        loss.backward()
        update(task, model, optimizer)
        return loss.detach()

    return step


def update(task: Task, model: nn.Module, optimizer: torch.optim.Optimizer, stages: bool = False) -> None:
    if task.clip:
        clip(model.parameters(), task.clip, stages)
    optimizer.step()
    optimizer.zero_grad()


def one_rank(task: Task, micro: int) -> tuple[nn.Module, Step]:
    model = task.model()
    return model, ordinary(task, model, task.optimizer(model.parameters(), **task.settings))


def ddp(task: Task, micro: int) -> tuple[nn.Module, Step]:
    model = DistributedDataParallel(task.model())
    optimizer = task.optimizer(model.parameters(), **task.settings)
    return model.module, ordinary(task, model, optimizer, dist.get_world_size(), dist.get_rank())


def ddp_accumulated(task: Task, micro: int) -> tuple[nn.Module, Step]:
    model = DistributedDataParallel(task.model())
    optimizer = task.optimizer(model.parameters(), **task.settings)
    rank, ranks = dist.get_rank(), dist.get_world_size()

    def step(x: Tensor, y: Tensor) -> Tensor:
        pieces = list(zip(x.chunk(ranks)[rank].chunk(micro), y.chunk(ranks)[rank].chunk(micro), strict=True))
        total = torch.zeros(())
        with model.no_sync():
            for one, target in pieces[:-1]:
                loss = task.loss(model(one), target) / micro
                loss.backward()
                total += loss.detach()
        loss = task.loss(model(pieces[-1][0]), pieces[-1][1]) / micro
        loss.backward()
        update(task, model, optimizer)
        return total + loss.detach()

    return model.module, step


def zero1(task: Task, micro: int) -> tuple[nn.Module, Step]:
    model = DistributedDataParallel(task.model())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=task.optimizer, **task.settings)
    return model.module, ordinary(task, model, optimizer, dist.get_world_size(), dist.get_rank())


def fsdp2(task: Task, micro: int, reshard: bool = True) -> tuple[nn.Module, Step]:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = task.model()
    for unit in task.units(model):
        fully_shard(unit, mesh=mesh, reshard_after_forward=reshard)
    fully_shard(model, mesh=mesh, reshard_after_forward=reshard)
    optimizer = task.optimizer(model.parameters(), **task.settings)
    return model, ordinary(task, model, optimizer, dist.get_world_size(), dist.get_rank())


def fsdp2_kept(task: Task, micro: int) -> tuple[nn.Module, Step]:
    return fsdp2(task, micro, reshard=False)


def tensor_parallel(task: Task, micro: int) -> tuple[nn.Module, Step]:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = task.model()
    parallelize_module(model, mesh, task.plan(model))
    optimizer = task.optimizer(model.parameters(), **task.settings, foreach=False)
    return model, ordinary(task, model, optimizer)


def pipeline(task: Task, micro: int, schedule: type = ScheduleGPipe) -> tuple[nn.Module, Step]:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    part = task.stage(task.model(), rank, ranks)
    optimizer = task.optimizer(part.parameters(), **task.settings)
    running = schedule(PipelineStage(part, rank, ranks, torch.device("cpu")), micro, loss_fn=task.loss)

    def step(x: Tensor, y: Tensor) -> Tensor:
        losses: list[Tensor] = []
        given = (x,) if rank == 0 else ()
        running.step(*given, **({"target": y, "losses": losses} if rank == ranks - 1 else {}))
        update(task, part, optimizer, stages=True)
        return torch.stack([one.detach() for one in losses]).mean() if losses else torch.tensor(float("nan"))

    return part, step


def pipeline_1f1b(task: Task, micro: int) -> tuple[nn.Module, Step]:
    return pipeline(task, micro, Schedule1F1B)


STRATEGIES: dict[str, Callable[[Task, int], tuple[nn.Module, Step]]] = {
    "one-rank": one_rank,
    "ddp": ddp,
    "ddp-accumulated": ddp_accumulated,
    "zero1": zero1,
    "fsdp2": fsdp2,
    "fsdp2-kept": fsdp2_kept,
    "tensor-parallel": tensor_parallel,
    "pipeline-gpipe": pipeline,
    "pipeline-1f1b": pipeline_1f1b,
}


def whole(model: nn.Module) -> dict[str, Tensor]:
    """The parameters that this rank has, by their names in the script's model; shards are gathered."""
    found = {}
    for name, value in model.named_parameters():
        full = value.full_tensor() if isinstance(value, DTensor) else value
        found[name.removeprefix("gpt.")] = full.detach().clone()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=["chain", "gpt"])
    parser.add_argument("strategy", choices=list(STRATEGIES))
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--length", type=int, default=16)
    parser.add_argument("--micro", type=int, default=2, help="micro-batches")
    parser.add_argument("--clip", type=float, default=0.0)
    parser.add_argument("--optimizer", default="Adam", help="of the chain")
    parser.add_argument("--tied", action="store_true")
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    if args.model == "chain":
        task = chain(args.width, args.layers, args.batch, args.optimizer)
    else:
        task = gpt(args.width, args.layers, args.heads, args.length, args.batch, args.tied, args.clip)
    if args.strategy != "one-rank":
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    model, step = STRATEGIES[args.strategy](task, args.micro)
    for number, (x, y) in enumerate(task.batches(args.steps)):
        print(f"step {number} loss {step(x, y).item():.6f}", flush=True)
    parameters = whole(model)
    if args.save is not None:
        torch.save(parameters, args.save / f"rank{os.environ.get('RANK', '0')}.pt")
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
