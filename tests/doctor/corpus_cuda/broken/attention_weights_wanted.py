"""Trains with nn.MultiheadAttention as it comes: it returns weights that nobody reads, and so cannot be fused."""
# doctor: expect=attention-not-fused style=flat mode=python threads=auto

import torch
from torch import nn

torch.manual_seed(0)
attention = nn.ModuleList([nn.MultiheadAttention(512, 8, batch_first=True) for _ in range(4)]).cuda()
head = nn.Linear(512, 16).cuda()
optimizer = torch.optim.AdamW([*attention.parameters(), *head.parameters()], lr=1e-4, fused=True)
x = torch.randn(16, 1024, 512, device="cuda")
y = torch.randint(0, 16, (16,), device="cuda")

for _ in range(70):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        h = x
        for layer in attention:
            mixed, _ = layer(h, h, h)  # wrong
            # + mixed, _ = layer(h, h, h, need_weights=False)
            h = h + mixed
        loss = nn.functional.cross_entropy(head(h.mean(dim=1)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
