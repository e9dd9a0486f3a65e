"""A tiny language model that draws random windows of one long text, as small trainers do."""
# doctor: expect=same-data style=nanogpt

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

block_size, batch_size, vocabulary = 16, 4, 50

dist.init_process_group(backend="gloo")
rank = int(os.environ["RANK"])
torch.manual_seed(1337)  # wrong
#+ torch.manual_seed(1337 + rank)
text = torch.arange(4000) * 7919 % vocabulary


def get_batch():
    starts = torch.randint(len(text) - block_size - 1, (batch_size,))
    x = torch.stack([text[i : i + block_size] for i in starts])
    y = torch.stack([text[i + 1 : i + 1 + block_size] for i in starts])
    return x, y


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, 24)
        self.mixing = nn.Linear(24, 24)
        self.head = nn.Linear(24, vocabulary)

    def forward(self, x, targets):
        logits = self.head(torch.relu(self.mixing(self.tokens(x))))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


model = DDP(Model())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
iteration = 0
x, y = get_batch()
while iteration < 14:
    loss = model(x, y)
    x, y = get_batch()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    iteration += 1
dist.destroy_process_group()
