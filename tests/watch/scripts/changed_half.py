"""Half precision with losses so small that gradients vanish; `clip` clips.

`scaler` scales but clips before unscaling, which `late` does then; `bfloat16` has a scaler that it does not need;
`overflow` has one loss that no scale fits.
"""

import json
import sys

import torch
from torch import nn


def train(words: list[str]) -> dict[str, object]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", enabled="scaler" in words)
    before = [one.detach().clone() for one in model.parameters()]
    zeros, norms = [], []
    for step in range(3):
        x = torch.randn(32, 16) * (1e4 if "overflow" in words and step == 1 else 1.0)
        with torch.autocast("cpu", torch.bfloat16 if "bfloat16" in words else torch.float16):
            loss = model(x).float().square().mean() * 1e-6
        scaler.scale(loss).backward()
        if "clip" in words:
            norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)))
        if "late" in words:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        zeros.append(float(torch.cat([one.grad.flatten() for one in model.parameters()]).eq(0).float().mean()))
        optimizer.zero_grad()
    moved = max(float((a - b).abs().max()) for a, b in zip(before, model.parameters(), strict=True))
    return {"zeros": zeros, "norms": norms, "moved": moved, "scaler": scaler.is_enabled()}


if __name__ == "__main__":
    print(json.dumps(train(sys.argv[1:])), flush=True)
