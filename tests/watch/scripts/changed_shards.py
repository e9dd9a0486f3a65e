"""Two ranks hold a shard of the parameters each and clip it: by torch's function, by hand, rightly, or after more."""

import json
import sys

import torch
import torch.distributed as dist

how = sys.argv[1]
LIMIT = 0.5
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
shard = [torch.nn.Parameter(torch.randn(6, 4)), torch.nn.Parameter(torch.randn(4))]
optimizer = torch.optim.SGD(shard, lr=0.1)
x = torch.randn(5, 6) * (1 + rank)
for _ in range(4):
    optimizer.zero_grad()
    (x @ shard[0] + shard[1]).pow(2).mean().backward()
    squares = sum(one.grad.square().sum() for one in shard)
    if how == "function":
        torch.nn.utils.clip_grad_norm_(shard, LIMIT)
    else:
        if how == "right":
            dist.all_reduce(squares)
        for one in shard:
            one.grad.mul_(torch.clamp(LIMIT / squares.sqrt(), max=1.0))
    if how == "other":
        shard[1].grad.add_(1.0)
    optimizer.step()
print(json.dumps({"weights": torch.cat([one.detach().flatten() for one in shard]).tolist()}))
dist.destroy_process_group()
