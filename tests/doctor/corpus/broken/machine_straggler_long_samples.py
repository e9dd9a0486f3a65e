"""Samples are sorted by length and cut in two halves: one rank has all the long ones."""
# doctor: expect=straggler style=nanogpt

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
short, long = [2] * 32, [130] * 32
mine = sorted(short + long)[rank * 32 : (rank + 1) * 32]  # wrong
#+ mine = [length for pair in zip(short, long) for length in pair][rank * 32 : (rank + 1) * 32]
generator = torch.Generator().manual_seed(rank)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(16, 32)

    def forward(self, samples):
        return torch.cat([self.read(sample) for sample in samples])

    def read(self, sample):
        state = sample.new_zeros(len(sample), 32)
        for token in sample.unbind(1):
            state = self.cell(token, state)
        return state


model = DDP(Reader())
optimizer = torch.optim.AdamW(model.parameters())
step = 0
while step < len(mine) // 2:
    samples = [torch.randn(2, length, 16, generator=generator) for length in mine[2 * step : 2 * step + 2]]
    model(samples).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    step += 1
dist.destroy_process_group()
