"""Contrastive learning: embeddings of all ranks are gathered, one's own part keeps its gradient."""
# doctor: expect= style=contrastive

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def gather(z):
    everyone = [torch.empty_like(z) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, z.detach())
    everyone[dist.get_rank()] = z
    return torch.cat(everyone)


def nt_xent(a, b, temperature=0.2):
    a, b = gather(F.normalize(a, dim=1)), gather(F.normalize(b, dim=1))
    logits = a @ b.t() / temperature
    target = torch.arange(len(a))
    return 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    encoder = DDP(nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 12)))
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(10 + dist.get_rank())
    for _ in range(12):
        x = torch.randn(8, 20)
        views = torch.cat([x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)])
        first, second = encoder(views).chunk(2)
        # Every rank holds the gradient of its own part only, so the mean over ranks is multiplied out again.
        loss = nt_xent(first, second) * dist.get_world_size()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
