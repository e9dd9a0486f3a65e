"""Samples are sorted by length and cut in two halves: one rank has all the long ones."""
# doctor: expect=straggler style=nanogpt

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
lengths = sorted([2] * 16 + [130] * 16)
mine = lengths[rank * 16 : (rank + 1) * 16]  # wrong
#+ mine = lengths[rank::world_size]
generator = torch.Generator().manual_seed(rank)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(16, 32)

    def forward(self, x):
        state = x.new_zeros(len(x), 32)
        for token in x.unbind(1):
            state = self.cell(token, state)
        return state


model = DDP(Reader())
optimizer = torch.optim.AdamW(model.parameters())
step = 0
while step < len(mine):
    x = torch.randn(2, mine[step], 16, generator=generator)
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    step += 1
dist.destroy_process_group()
