"""Long and short samples fall on the ranks by turns: no rank is always behind. Rank 0 saves now and then."""
# doctor: expect= style=functions

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def batches(rank, count):
    generator = torch.Generator().manual_seed(rank)
    for number in range(count):
        yield torch.randn(2, 40 if (number + rank) % 2 else 4, 8, generator=generator)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.RNNCell(8, 16)

    def forward(self, x):
        state = x.new_zeros(len(x), 16)
        for token in x.unbind(1):
            state = self.cell(token, state)
        return state


def main():
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    model = DDP(Reader())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, x in enumerate(batches(dist.get_rank(), 20)):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9 and dist.get_rank() == 0:
            time.sleep(0.03)
            torch.save(model.module.state_dict(), "last.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
