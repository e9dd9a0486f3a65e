"""Asks for what other ranks would say, in the way its first argument says, and prints what it gets."""

import sys

import torch
import torch.distributed as dist
from torch import nn

STEPS = 4


def train(after):
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for number in range(STEPS):
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if after(number):
            break


def looks(_):
    """A decision from a mean over all ranks, three operations away from the collective."""
    votes = torch.tensor([1.0, 2.0])
    dist.all_reduce(votes)
    mean = votes.sum() / dist.get_world_size()
    print("mean", float(mean))
    return bool(mean > 100)


def minds_itself(_):
    """Gradients are reduced and nobody looks at them; the loss that is read is the rank's own."""
    bias = torch.zeros(4)
    dist.all_reduce(bias)
    print(torch.ones(3).sum().item())


def objects(_):
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, {"rank": dist.get_rank()})
    told = [f"from {dist.get_rank()}"]
    dist.broadcast_object_list(told, src=0)
    mine = [None]
    dist.scatter_object_list(mine, list(range(dist.get_world_size())) if dist.get_rank() == 0 else None, src=0)
    received = [None]
    dist.recv_object_list(received, src=(dist.get_rank() + 1) % dist.get_world_size())
    print(everyone, told, mine, received)


def all_kinds(_):
    """Every collective once, with something printed of each result."""
    size, rank = dist.get_world_size(), dist.get_rank()
    ones, pieces = torch.ones(2), [torch.empty(2) for _ in range(size)]
    dist.all_gather(pieces, ones * 3)
    whole, part = torch.empty(2 * size), torch.empty(2)
    dist.all_gather_into_tensor(whole, ones)
    dist.reduce_scatter_tensor(part, torch.arange(2.0 * size))
    dist.all_to_all_single(torch.empty(size), torch.ones(size))
    dist.all_to_all(list(torch.empty(size, 1)), list(torch.ones(size, 1)))
    dist.gather(ones, [torch.empty(2) for _ in range(size)] if rank == 0 else None, dst=0)
    dist.scatter(part, list(torch.ones(size, 2)) if rank == 0 else None, src=0)
    dist.reduce(ones, 0)
    top = torch.tensor([5])
    dist.all_reduce(top, op=dist.ReduceOp.MAX)
    anyone = torch.empty(3)
    source = dist.recv(anyone, (rank + 1) % size)
    print(len(pieces), pieces[-1].tolist(), whole.shape, part.tolist(), top.item(), anyone.tolist(), source)


def meshes(_):
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("outer", "inner"))
    inner = dist.new_group([0, 1], backend="nccl")
    print(mesh.size(), mesh["inner"].size(), dist.get_backend(), dist.get_backend(inner), inner.size())


def first_only(_):
    if dist.get_rank() == 0:
        with torch.no_grad():
            nn.Linear(8, 8)(torch.ones(1, 8))
    dist.barrier()
    if dist.get_backend() == "gloo":
        dist.monitored_barrier()
    print("rank", dist.get_rank(), "of", dist.get_world_size())


def waits_for_a_key(_):
    dist.distributed_c10d._get_default_store().wait(["from another rank"])


ASKED = {
    "mpi": {"backend": "mpi"},
    "explicit": {"backend": "gloo", "rank": 1, "world_size": 2, "init_method": "tcp://127.0.0.1:1"},
    "unnamed": {},
}
AFTER = (looks, minds_itself, objects, all_kinds, meshes, first_only, waits_for_a_key)

if __name__ == "__main__":
    way = sys.argv[1]
    torch.manual_seed(0)
    dist.init_process_group(**ASKED.get(way, {"backend": "gloo"}))
    train({one.__name__: one for one in AFTER}.get(way, first_only))
    dist.destroy_process_group()
