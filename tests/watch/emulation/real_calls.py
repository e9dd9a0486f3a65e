"""Two ranks that send lists, objects and both ways at once, and print what they got."""

import torch
import torch.distributed as dist


def numbers(*values):
    return [torch.tensor([float(value)]) for value in values]


def plain(rank):
    (own,), gathered, shifted = numbers(rank + 1), numbers(0, 0), numbers(0, 0)
    dist.gather(own, gathered if rank == 0 else None, dst=0)
    dist.all_to_all(shifted, numbers(10 * rank, 10 * rank + 1))
    dist.scatter(own, numbers(5, 6) if rank == 0 else None, src=0)
    (got,) = numbers(0)
    ways = [dist.P2POp(dist.isend, own, 1 - rank), dist.P2POp(dist.irecv, got, 1 - rank)]
    for one in dist.batch_isend_irecv(ways):
        one.wait()
    print(gathered, shifted, own, got)


def objects(rank):
    heard, everybody, mine = [rank, "first"], [None, None], [None]
    dist.broadcast_object_list(heard, 0)
    dist.all_gather_object(everybody, {"rank": rank})
    dist.scatter_object_list(mine, ["a", "b"] if rank == 0 else None, src=0)
    print(heard, everybody, mine)


def buffers(rank):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.BatchNorm1d(4))
    for step in range(3):
        model(torch.full((2, 4), float(rank + step))).sum().backward()
    print([buffer.tolist() for buffer in model.buffers()])


if __name__ == "__main__":
    dist.init_process_group("gloo")
    for calls in (plain, objects, buffers):
        calls(dist.get_rank())
    dist.barrier()
    dist.destroy_process_group()
