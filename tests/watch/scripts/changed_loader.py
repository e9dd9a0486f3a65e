"""Two epochs over 24 samples in batches of 4: plain, with a sampler that is never told the epoch, or iterable."""

import json
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Stream(IterableDataset):
    """Without a length."""

    def __iter__(self):
        return iter([(torch.tensor([float(one)]),) for one in range(24)])


def loader_of(how: str) -> DataLoader:
    data = TensorDataset(torch.arange(24.0)[:, None])
    if how == "stream":
        return DataLoader(Stream(), 4)
    if how == "sampler":
        return DataLoader(data, 4, sampler=DistributedSampler(data, seed=3))
    return DataLoader(data, 4, True)


def train(how: str) -> list[list[float]]:
    loader, torch_threads = loader_of(how), torch.get_num_threads()
    torch.set_num_threads(torch_threads)
    model = DDP(nn.Linear(1, 1), None, None, 0, False, find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    epochs: list[list[float]] = []
    for _ in range(2):
        epochs.append([])
        for (rows,) in loader:
            epochs[-1] += rows[:, 0].tolist()
            model(rows).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    print(model.find_unused_parameters, torch.get_num_threads(), file=sys.stderr, flush=True)
    return epochs


if __name__ == "__main__":
    dist.init_process_group("gloo")
    print(json.dumps(train(sys.argv[1])), flush=True)
    dist.destroy_process_group()
