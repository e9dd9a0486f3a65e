"""Trains a transformer in float16 with everything in its place: scaler, clipping after unscale_, fused attention."""
# doctor: expect= style=flat mode=python threads=auto

import torch
from torch import nn

torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.0, batch_first=True, norm_first=True)
model = nn.Sequential(nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), nn.Linear(768, 64)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
scaler = torch.amp.GradScaler("cuda")
x, y = torch.randn(32, 512, 768, device="cuda"), torch.randint(0, 64, (32 * 512,), device="cuda")

with torch.autograd.detect_anomaly(check_nan=False):
    model(x[:1]).sum().backward()  # once, to see that gradients are sane before the long run
optimizer.zero_grad()
total = torch.zeros((), device="cuda")
for _ in range(80):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    total += loss.detach()
print(f"mean loss {total.item() / 80:.4f}")
