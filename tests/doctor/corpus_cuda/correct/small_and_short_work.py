"""Trains with small copies and small scores, which cost nothing: a mask of 64 bytes, attention over eight tokens."""
# doctor: expect= style=flat mode=python threads=auto

import torch
from torch import nn

torch.manual_seed(0)
torch.set_float32_matmul_precision("high")
model = nn.Sequential(nn.Linear(2048, 8192), nn.GELU(), nn.Linear(8192, 2048)).cuda()
query = nn.Linear(2048, 2048).cuda()
optimizer = torch.optim.AdamW([*model.parameters(), *query.parameters()], lr=1e-4, fused=True)
x, y = torch.randn(1024, 8, 2048, device="cuda"), torch.randn(1024, 8, 2048, device="cuda")
mask = torch.tril(torch.ones(8, 8, dtype=torch.bool))

for _ in range(70):
    scores = query(x) @ x.transpose(1, 2) / 2048**0.5
    scores = scores.masked_fill(~mask.to(x.device, non_blocking=True), float("-inf"))
    loss = nn.functional.mse_loss(model(scores.softmax(dim=-1) @ x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
