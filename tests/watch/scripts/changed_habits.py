"""Small loops with one bad habit each, or without it where `mended` follows: what they compute is printed as JSON."""

import json
import random
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, random_split

HABIT, MENDED = sys.argv[1], "mended" in sys.argv


def split():
    generator = torch.Generator().manual_seed(0) if MENDED else torch.Generator().manual_seed(dist.get_rank() + 5)
    parts = random_split(range(40), [30, 10], generator=generator)
    return {"indices": [list(part.indices) for part in parts]}


def evaluate():
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    outputs = []
    for step in range(4):
        x = torch.randn(32, 6)
        loss = F.cross_entropy(model(x), (x.sum(1) > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if MENDED:
            model.eval()
        with torch.no_grad():
            outputs.append(model(torch.full((4, 6), float(step))).flatten().tolist())
        model.train()
    return {"outputs": outputs, "weights": [one.sum().item() for one in model.state_dict().values()]}


def tokens():
    torch.manual_seed(0)
    model = DDP(nn.Linear(6, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(1 + dist.get_rank())
    for _ in range(3):
        x, y = torch.randn(24, 6, generator=generator), torch.randint(0, 5, (24,), generator=generator)
        y[6 + 12 * dist.get_rank() :] = -100
        loss = F.cross_entropy(model(x), y)
        if MENDED:
            own = (y != -100).sum()
            total = own.clone()
            dist.all_reduce(total)
            loss = loss * own * dist.get_world_size() / total
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {"weights": [value for one in model.parameters() for value in one.flatten().tolist()]}


class Drawn(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.tensor([torch.rand(1).item(), random.random()])


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(4))


def seeds():
    torch.manual_seed(3)
    random.seed(3)
    return {"drawn": torch.cat(list(DataLoader(Drawn(), batch_size=4))).flatten().tolist()}


def workers():
    torch.manual_seed(3)
    plain = DataLoader(TensorDataset(torch.arange(8)), batch_size=2)
    busy = DataLoader(range(8), batch_size=2, num_workers=1, prefetch_factor=4, persistent_workers=True)
    stream = DataLoader(Stream(), batch_size=2)
    seen = [[batch.tolist() for batch in (one for one in busy)], [one.tolist() for one in stream]]
    return {"workers": [one.num_workers for one in (plain, busy, stream)], "seen": seen}


def one_step():
    """Without a step nothing is recorded."""
    layer = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(torch.ones(4, 2)).sum().backward()
    optimizer.step()


HABITS = {"split": split, "evaluate": evaluate, "tokens": tokens, "seeds": seeds, "workers": workers}

if __name__ == "__main__":
    dist.init_process_group("gloo")
    said = HABITS[HABIT]()
    one_step()
    print(json.dumps(said), flush=True)
    dist.destroy_process_group()
