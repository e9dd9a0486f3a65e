"""The same 32 rows per step at once (full), in four parts (parts), or in four with a last window of two (short).

`under_no_sync` never reduces; a second word makes backward start from a scaled loss.
"""

import contextlib
import json
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def train(how: str, scales: bool) -> dict[str, object]:
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1)), broadcast_buffers=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cpu", enabled=scales)
    torch.manual_seed(dist.get_rank())
    gradient = []
    for step in range(3):
        x, y = torch.randn(32, 16), torch.randn(32, 1)
        parts = 1 if how == "full" else 2 if how == "short" and step == 2 else 4
        for rows, targets in zip(x.chunk(parts), y.chunk(parts), strict=True):
            with model.no_sync() if how == "under_no_sync" else contextlib.nullcontext():
                loss = nn.functional.mse_loss(model(rows), targets)
                scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        gradient.append([value for one in model.parameters() for value in one.grad.flatten().tolist()])
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return {"gradient": gradient, "weights": [v for one in model.parameters() for v in one.flatten().tolist()]}


if __name__ == "__main__":
    dist.init_process_group("gloo")
    print(json.dumps(train(sys.argv[1], "scaled" in sys.argv)), flush=True)
    dist.destroy_process_group()
