"""A small language model in a while loop over random windows of a stream; the flag of the last micro step is missing."""
# doctor: expect=sync-every-micro-batch style=nanogpt

import math
import os

import torch
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

gradient_accumulation_steps = 5
batch_size, block_size, vocab = 4, 16, 48
max_iters = 8
learning_rate = 1e-3

init_process_group(backend="gloo")
ddp_rank = int(os.environ["RANK"])
torch.manual_seed(1337 + ddp_rank)
data = torch.randint(0, vocab, (4096,))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(vocab, 32)
        self.block = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
        self.lm_head = nn.Linear(32, vocab, bias=False)

    def forward(self, idx, targets=None):
        logits = self.lm_head(self.block(self.wte(idx)))
        loss = F.cross_entropy(logits.view(-1, vocab), targets.view(-1)) if targets is not None else None
        return logits, loss


def get_batch():
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([data[i : i + block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + block_size] for i in ix])
    return x, y


model = DDP(GPT())
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
X, Y = get_batch()
iter_num = 0
while True:
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * 0.5 * (1 + math.cos(math.pi * iter_num / max_iters))
    for micro_step in range(gradient_accumulation_steps):
        #+ model.require_backward_grad_sync = micro_step == gradient_accumulation_steps - 1
        logits, loss = model(X, Y)
        loss = loss / gradient_accumulation_steps
        X, Y = get_batch()
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    iter_num += 1
    if iter_num > max_iters:
        break
destroy_process_group()
