"""Ranks with different numbers of tokens, each mean weighted by its share: cut in half, DDP's mean is the global one."""
# doctor: expect= style=token-normalised

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

VOCAB, LENGTH = 30, 20


def batch(generator, longest):
    tokens = torch.randint(0, VOCAB, (6, LENGTH), generator=generator)
    lengths = torch.randint(2, longest + 1, (6, 1), generator=generator)
    return tokens, tokens.masked_fill(torch.arange(LENGTH) >= lengths, -100)


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DDP(nn.Sequential(nn.Embedding(VOCAB, 16), nn.Linear(16, VOCAB)))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
generator = torch.Generator().manual_seed(5 + rank)
for _ in range(8):
    tokens, targets = batch(generator, 6 + 12 * rank)
    loss = F.cross_entropy(model(tokens).transpose(1, 2), targets, ignore_index=-100)
    own = (targets != -100).sum()
    total = own.clone()
    dist.all_reduce(total)
    (loss * own * world / total).backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
