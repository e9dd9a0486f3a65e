"""One scaler for two optimizers: embeddings and the rest are stepped apart, update is called once."""
# doctor: expect= style=functions

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(60, 24)
        self.body = nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 5))

    def forward(self, tokens):
        return self.body(self.embed(tokens))


def batches(rank, count):
    generator = torch.Generator().manual_seed(300 + rank)
    for _ in range(count):
        yield torch.randint(0, 60, (6, 10), generator=generator), torch.randint(0, 5, (6, 10), generator=generator)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(Tagger())
    slow = torch.optim.SGD(model.module.embed.parameters(), lr=0.01)
    fast = torch.optim.Adam(model.module.body.parameters(), lr=0.001)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    for tokens, tags in batches(dist.get_rank(), 14):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tags.flatten())
        slow.zero_grad()
        fast.zero_grad()
        scaler.scale(loss).backward()
        for optimizer in (slow, fast):
            scaler.step(optimizer)
        scaler.update()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
