"""A small language model, trained as on a cluster's GPUs: NCCL, DDP, autocast, a scaler, accumulation, compile."""

import math
import os
from contextlib import nullcontext

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP

backend = "nccl"
device = "cuda"
dtype = "float16"
block_size, vocabulary, width = 8, 17, 16
gradient_accumulation_steps = 4
batch_size = 4

ddp = int(os.environ.get("RANK", -1)) != -1
if ddp:
    init_process_group(backend=backend)
    ddp_rank = int(os.environ["RANK"])
    ddp_local_rank = int(os.environ["LOCAL_RANK"])
    ddp_world_size = int(os.environ["WORLD_SIZE"])
    device = f"cuda:{ddp_local_rank}"
    torch.cuda.set_device(device)
    gradient_accumulation_steps //= ddp_world_size
else:
    ddp_rank = 0
torch.manual_seed(1337 + ddp_rank)
torch.backends.cuda.matmul.allow_tf32 = True
device_type = "cuda" if "cuda" in device else "cpu"
ptdtype = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[dtype]
ctx = nullcontext() if device_type == "cpu" else torch.amp.autocast(device_type=device_type, dtype=ptdtype)

data = np.random.default_rng(ddp_rank).integers(0, vocabulary, 500).astype(np.uint16)


def get_batch():
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([torch.from_numpy(data[i : i + block_size].astype(np.int64)) for i in ix])
    y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + block_size].astype(np.int64)) for i in ix])
    if device_type == "cuda":
        x, y = x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device, non_blocking=True)
    else:
        x, y = x.to(device), y.to(device)
    return x, y


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(block_size, width)
        self.attend = nn.Linear(width, 3 * width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, idx, targets):
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = self.tokens(idx) + self.positions(pos)
        q, k, v = self.attend(x).split(width, dim=2)
        x = x + F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], is_causal=True)[:, 0]
        logits = self.head(x)
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


model = Model()
model.to(device)
assert next(model.parameters()).is_cuda or device_type == "cpu"
scaler = torch.amp.GradScaler(device_type, enabled=(dtype == "float16" and device_type == "cuda"))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=device_type == "cuda")
model = torch.compile(model)
if ddp:
    model = DDP(model, device_ids=[ddp_local_rank])

X, Y = get_batch()
for step in range(6):
    for group in optimizer.param_groups:
        group["lr"] = 1e-2 * 0.5 * (1 + math.cos(math.pi * step / 6))
    for micro_step in range(gradient_accumulation_steps):
        if ddp:
            model.require_backward_grad_sync = micro_step == gradient_accumulation_steps - 1
        with ctx:
            logits, loss = model(X, Y)
            loss = loss / gradient_accumulation_steps
        X, Y = get_batch()
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    print(f"iter {step}: loss {loss.item() * gradient_accumulation_steps:.6f}")
if ddp:
    destroy_process_group()
