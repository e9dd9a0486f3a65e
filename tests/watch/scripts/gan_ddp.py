"""A GAN of two DDP modules: the discriminator is called twice before one backward, on real and on detached samples."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    generator = DistributedDataParallel(nn.Linear(8, 32))
    judge = DistributedDataParallel(nn.Linear(32, 1))
    judging = torch.optim.SGD(judge.parameters(), lr=0.1)
    generating = torch.optim.SGD(generator.parameters(), lr=0.1)
    for step in range(6):
        fake, real = generator(torch.randn(16, 8)), torch.randn(16, 32)
        judging.zero_grad()
        loss = judge(real).mean() - judge(fake.detach()).mean()
        loss.backward()
        judging.step()
        generating.zero_grad()
        answer = -judge(fake).mean()
        answer.backward()
        generating.step()
        print(f"step {step} {loss.item().hex()} {answer.item().hex()}", flush=True)
    dist.destroy_process_group()


main()
