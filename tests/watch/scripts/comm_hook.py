"""DDP with a communication hook of its own, which must stay the one that runs."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

calls = 0


def halved(group: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    global calls
    calls += 1
    work = dist.all_reduce(bucket.buffer() / 2, async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def train() -> None:
    torch.manual_seed(0)
    model = DDP(nn.Linear(32, 1))
    model.register_comm_hook(None, halved)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(dist.get_rank())
    for step in range(6):
        loss = nn.functional.mse_loss(model(torch.randn(16, 32)), torch.randn(16, 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} {loss.item().hex()}", "hook calls", calls, flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train()
    dist.destroy_process_group()
