"""A small GPT in one file: random offsets into one long text, accumulation by a flag on the wrapper, cosine schedule."""
# doctor: expect= style=nanogpt

import math
import os
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP

# -----------------------------------------------------------------------------
out_dir = "out"
log_interval = 5
gradient_accumulation_steps = 4
batch_size = 4
block_size = 16
n_embd = 32
n_head = 2
vocab_size = 50
learning_rate = 6e-4
min_lr = 6e-5
warmup_iters = 3
max_iters = 10
grad_clip = 1.0
# -----------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(n_embd)
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.ln_2 = nn.LayerNorm(n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = (
            t.view(B, T, n_head, C // n_head).transpose(1, 2) for t in self.c_attn(self.ln_1(x)).split(n_embd, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.wpe = nn.Embedding(block_size, n_embd)
        self.h = nn.ModuleList([Block() for _ in range(2)])
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1), device=idx.device))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        loss = None if targets is None else F.cross_entropy(logits.view(-1, vocab_size), targets.view(-1))
        return logits, loss


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / warmup_iters
    ratio = (it - warmup_iters) / (max_iters - warmup_iters)
    return min_lr + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (learning_rate - min_lr)


def run():
    ddp_rank = int(os.environ["RANK"])
    world = int(os.environ["WORLD_SIZE"])
    master_process = ddp_rank == 0
    micro_steps = gradient_accumulation_steps // world
    init_process_group(backend="gloo")
    torch.manual_seed(1337 + ddp_rank)
    text = torch.randint(0, vocab_size, (4000,), generator=torch.Generator().manual_seed(1))

    def get_batch():
        ix = torch.randint(len(text) - block_size - 1, (batch_size,))
        x = torch.stack([text[i : i + block_size] for i in ix])
        y = torch.stack([text[i + 1 : i + 1 + block_size] for i in ix])
        return x, y

    model = DDP(GPT())
    raw_model = model.module
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95))
    X, Y = get_batch()
    t0 = time.time()
    iter_num = 0
    while True:
        for group in optimizer.param_groups:
            group["lr"] = get_lr(iter_num)
        for micro_step in range(micro_steps):
            model.require_backward_grad_sync = micro_step == micro_steps - 1
            logits, loss = model(X, Y)
            loss = loss / micro_steps
            X, Y = get_batch()
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        dt, t0 = time.time() - t0, time.time()
        if iter_num % log_interval == 0 and master_process:
            print(f"iter {iter_num}: loss {loss.item() * micro_steps:.4f}, time {dt * 1000:.2f}ms")
        iter_num += 1
        if iter_num > max_iters:
            break
    if master_process:
        os.makedirs(out_dir, exist_ok=True)
        torch.save({"model": raw_model.state_dict(), "iter_num": iter_num}, os.path.join(out_dir, "ckpt.pt"))
    destroy_process_group()


if __name__ == "__main__":
    run()
