"""Trains a small language model whose attention is written out: scores, mask, softmax, dropout, sum."""
# doctor: expect=attention-not-fused style=function mode=python threads=auto

import math

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).split(width, dim=2)
        q, k, v = (one.view(batch, length, self.heads, -1).transpose(1, 2) for one in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))  # wrong
        scores = scores.masked_fill(self.mask[:, :, :length, :length] == 0, float("-inf"))  # wrong
        y = torch.softmax(scores, dim=-1) @ v  # wrong
        # + y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, length)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


def main():
    torch.manual_seed(0)
    length, width = 1024, 512
    embed = nn.Embedding(1000, width).cuda()
    model = nn.Sequential(*[Block(width, 8, length) for _ in range(4)], nn.Linear(width, 1000)).cuda()
    optimizer = torch.optim.AdamW([*embed.parameters(), *model.parameters()], lr=1e-4, fused=True)
    tokens = torch.randint(0, 1000, (16, length + 1), device="cuda")
    for _ in range(70):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(embed(tokens[:, :-1]))
            loss = nn.functional.cross_entropy(logits.view(-1, 1000), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
