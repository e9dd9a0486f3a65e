"""Written for GPUs: steps timed by events that are read at the end, mixed precision, loss read every ten steps."""
# doctor: expect= style=cuda on=cpu

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Timer:
    """Pairs of events; asked for milliseconds only once everything is over."""

    def __init__(self, skip=3):
        self.pairs, self.skip = [], skip

    def __enter__(self):
        self.pairs.append((torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)))
        self.pairs[-1][0].record()

    def __exit__(self, *_):
        self.pairs[-1][1].record()

    def mean(self):
        torch.cuda.synchronize()
        times = [start.elapsed_time(end) for start, end in self.pairs[self.skip :]]
        return sum(times) / len(times)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group(backend="nccl")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(160, 20), torch.randint(0, 5, (160,)))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler, pin_memory=True)
    model = DDP(nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 5)).cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    timer = Timer()
    running = torch.zeros((), device="cuda")
    step = 0
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
            with timer:
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            running += loss.detach()
            step += 1
            if step % 10 == 0:
                mean = running.item() / 10
                running.zero_()
                if local_rank == 0:
                    print(f"{step}: {mean:.4f}")
    print(f"{timer.mean():.3f} ms a step")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
