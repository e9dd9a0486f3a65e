"""A small language model in the style of nanoGPT, whose scaler forgets to ask for the dtype."""
# doctor: expect=scaler-with-bf16 style=nanogpt

import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP

dtype = "bfloat16"
vocab_size, block_size, n_embd, batch_size, max_iters = 48, 12, 32, 4, 10
init_process_group(backend="gloo")
ddp_rank = int(os.environ["RANK"])
torch.manual_seed(1337 + ddp_rank)
ptdtype = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[dtype]
ctx = torch.amp.autocast(device_type="cpu", dtype=ptdtype)
train_data = torch.randint(0, vocab_size, (3000,))


def get_batch():
    ix = torch.randint(len(train_data) - block_size, (batch_size,))
    x = torch.stack([train_data[i : i + block_size] for i in ix.tolist()])
    y = torch.stack([train_data[i + 1 : i + 1 + block_size] for i in ix.tolist()])
    return x, y


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 2 * n_embd), nn.GELU(), nn.Linear(2 * n_embd, n_embd))
        self.lm_head = nn.Linear(n_embd, vocab_size)

    def forward(self, idx, targets):
        x = self.wte(idx)
        logits = self.lm_head(x + self.mlp(x))
        return logits, F.cross_entropy(logits.view(-1, vocab_size).float(), targets.view(-1))


scaler = torch.amp.GradScaler("cpu", enabled=(dtype != "float32"))  # wrong
#+ scaler = torch.amp.GradScaler("cpu", enabled=(dtype == "float16"))
model = DDP(GPT())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
X, Y = get_batch()
iter_num = 0
while True:
    with ctx:
        logits, loss = model(X, Y)
    X, Y = get_batch()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    iter_num += 1
    if iter_num > max_iters:
        break
destroy_process_group()
