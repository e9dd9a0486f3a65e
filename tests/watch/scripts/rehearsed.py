"""Trains a few steps in the way its first argument says; every way sends other messages."""

import contextlib
import gc
import sys
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

WIDTH, BATCH, STEPS = 64, 4, 5
warnings.simplefilter("ignore")


def layers(depth=3, width=WIDTH):
    torch.manual_seed(1)
    return nn.Sequential(*(nn.Linear(width, width) for _ in range(depth)))


def batch():
    return torch.randn(BATCH, WIDTH)


def train(model, parameters=None, accumulate=1, step=None, optimizer=torch.optim.SGD):
    """The usual loop; synchronises with the last micro-batch only."""
    optimizer = optimizer(parameters or model.parameters(), lr=0.01)
    for _ in range(STEPS):
        for micro in range(accumulate):
            quiet = micro < accumulate - 1 and isinstance(model, DistributedDataParallel)
            with model.no_sync() if quiet else contextlib.nullcontext():
                mse_loss(model(batch()), batch()).backward()
        if step is not None:
            step()
        optimizer.step()
        optimizer.zero_grad()


def ddp(**options):
    return DistributedDataParallel(layers(), bucket_cap_mb=0.02, **options)


def hooked(state, hook):
    model = ddp()
    model.register_comm_hook(state, hook)
    train(model)


def power_sgd():
    hooked(powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook)


def own_hook():
    def hook(state, bucket):
        sent = bucket.buffer().div_(dist.get_world_size())
        work = dist.all_reduce(sent, async_op=True)
        return work.get_future().then(lambda future: future.wait()[0])

    hooked(None, hook)


class Branch(nn.Sequential):
    """Its last layer is never used."""

    def forward(self, given):
        return self[0](given)


def unused():
    train(DistributedDataParallel(Branch(*layers()), bucket_cap_mb=0.02, find_unused_parameters=True))


def two_models():
    models = nn.ModuleList([ddp(), ddp()])
    optimizer = torch.optim.SGD(models.parameters(), lr=0.01)
    for _ in range(STEPS):
        mse_loss(models[0](batch()), models[1](batch())).backward()
        optimizer.step()
        optimizer.zero_grad()


def normalised():
    train(DistributedDataParallel(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)), bucket_cap_mb=0.02))


def sharded():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = layers()
    for layer in model:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def fsdp2():
    train(sharded(), optimizer=torch.optim.Adam)


def fsdp2_memory():
    """Prints the most that tensors held at once, by torch's own account."""
    from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker

    model = sharded()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    account = FSDPMemTracker(model, optimizer)
    account.track_inputs((batch(),))
    # When Python collects cycles is a matter of chance: without it, the peak is the same every time.
    gc.collect()
    gc.disable()
    with account:
        for _ in range(2):
            model(batch()).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    print(account.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"])


def fsdp1():
    from torch.distributed.fsdp import FullyShardedDataParallel

    train(FullyShardedDataParallel(layers(), device_id=torch.device("cpu")))


def tensor_parallel():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(3)
    train(parallelize_module(layers(2), mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()}))


def pipeline():
    """A stage of layers on each rank, forward and backward through their neighbours."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    stage = layers(1)
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.01)
    for _ in range(STEPS):
        given = batch() if rank == 0 else torch.empty(BATCH, WIDTH)
        if rank:
            dist.recv(given, rank - 1)
        out = stage(given.requires_grad_())
        if rank < last:
            dist.send(out.detach(), rank + 1)
            gradient = torch.empty_like(out)
            dist.recv(gradient, rank + 1)
            out.backward(gradient)
        else:
            out.sum().backward()
        if rank:
            dist.send(given.grad, rank - 1)
        optimizer.step()
        optimizer.zero_grad()


def neighbours():
    """Both ways at once in a ring."""
    rank, size = dist.get_rank(), dist.get_world_size()

    def swap():
        there, back = torch.ones(100), torch.empty(100)
        ways = [dist.P2POp(dist.isend, there, (rank + 1) % size), dist.P2POp(dist.irecv, back, (rank - 1) % size)]
        for work in dist.batch_isend_irecv(ways):
            work.wait()

    train(layers(), step=swap)


def zero():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = ddp()
    made = lambda parameters, lr: ZeroRedundancyOptimizer(parameters, torch.optim.SGD, lr=lr)  # noqa: E731
    train(model, optimizer=made)


def joined():
    model = ddp()
    with model.join():
        train(model)


def by_hand():
    model = layers()

    def reduce():
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()

    train(model, step=reduce)


def handles():
    model = layers()

    def reduce():
        works = [dist.all_reduce(parameter.grad, async_op=True) for parameter in model.parameters()]
        for work in works:
            work.wait()

    train(model, step=reduce)


def compiled():
    train(torch.compile(DistributedDataParallel(layers()), backend="eager"))


def lbfgs():
    model = ddp()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)

    def closure():
        optimizer.zero_grad()
        loss = mse_loss(model(torch.ones(BATCH, WIDTH)), torch.zeros(BATCH, WIDTH))
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)


def scaled():
    model, scaler = ddp(), torch.amp.GradScaler("cpu", init_scale=4.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = mse_loss(model(batch()), batch())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def logs():
    """Statistics of all ranks after every step."""
    numbers = torch.zeros(2)

    def tell():
        numbers.fill_(3.0)
        dist.all_reduce(numbers)

    train(ddp(), step=tell)


def after():
    """Statistics after the optimizer, between two steps, and a look at what was made of them."""
    model, seen = ddp(), torch.zeros(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        loss = mse_loss(model(batch()), batch())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seen = torch.stack([loss.detach(), torch.ones(())])
        dist.all_reduce(seen)
        mean = seen[0] / seen[1]
        if mean.item() < 0:
            break


def groups():
    half = dist.new_group([0], backend="gloo")
    everyone = dist.new_group()
    train(ddp(process_group=everyone), step=lambda: half is not None and dist.barrier())
    dist.monitored_barrier()


WAYS = {
    "ddp": lambda: train(ddp()),
    "views": lambda: train(ddp(gradient_as_bucket_view=True)),
    "static": lambda: train(ddp(static_graph=True)),
    "accumulated": lambda: train(ddp(), accumulate=3),
    "fp16": lambda: hooked(None, default_hooks.fp16_compress_hook),
    "plain_hook": lambda: hooked(None, default_hooks.allreduce_hook),
}
NAMED = (
    power_sgd,
    own_hook,
    unused,
    two_models,
    normalised,
    fsdp2,
    fsdp2_memory,
    fsdp1,
    tensor_parallel,
    pipeline,
    neighbours,
    zero,
)
WAYS |= {way.__name__: way for way in (*NAMED, joined, by_hand, handles, compiled, lbfgs, scaled, logs, after, groups)}

if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    WAYS[sys.argv[1]]()
    dist.destroy_process_group()
