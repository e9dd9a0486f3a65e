"""An attention whose mask is a buffer, made for the longest text there may ever be."""
# doctor: expect=needless-buffer-broadcast style=nanogpt

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

block_size, longest, n_embd, vocab = 16, 768, 32, 40


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.register_buffer("bias", torch.tril(torch.ones(longest, longest)))

    def forward(self, x):
        length = x.size(1)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        weights = (q @ k.transpose(1, 2) / n_embd**0.5).masked_fill(self.bias[:length, :length] == 0, float("-inf"))
        return self.proj(weights.softmax(-1) @ v)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.attention, self.head = nn.Embedding(vocab, n_embd), Attention(), nn.Linear(n_embd, vocab)

    def forward(self, tokens, targets):
        x = self.embed(tokens)
        logits = self.head(x + self.attention(x))
        return nn.functional.cross_entropy(logits.view(-1, vocab), targets.view(-1))


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(1337 + rank)
data = torch.randint(0, vocab, (4000,))


def get_batch():
    starts = torch.randint(len(data) - block_size - 1, (4,)).tolist()
    x = torch.stack([data[i : i + block_size] for i in starts])
    y = torch.stack([data[i + 1 : i + 1 + block_size] for i in starts])
    return x, y


model = DDP(Model())  # wrong
#+ model = DDP(Model(), broadcast_buffers=False)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(12):
    loss = model(*get_batch())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
