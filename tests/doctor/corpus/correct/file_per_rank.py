"""Each rank saves its own random state and shard; resumed at once from what rank 0 wrote."""
# doctor: expect= style=trainer

import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Job:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.rank = int(os.environ["RANK"])
        torch.manual_seed(0)
        data = TensorDataset(torch.randn(96, 10), torch.randn(96, 3))
        self.sampler = DistributedSampler(data, seed=9)
        self.loader = DataLoader(data, batch_size=8, sampler=self.sampler, drop_last=True)
        self.model = DistributedDataParallel(nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3)))
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def save(self, epoch):
        if self.rank == 0:
            self.folder.mkdir(exist_ok=True)
        dist.barrier()
        torch.save({"rng": torch.get_rng_state()}, self.folder / f"rng-rank{self.rank}.pt")
        if self.rank == 0:
            state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "epoch": epoch}
            torch.save(state, self.folder / "state.pt")
        dist.barrier()

    def resume(self):
        state = torch.load(self.folder / "state.pt", weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(torch.load(self.folder / f"rng-rank{self.rank}.pt", weights_only=True)["rng"])
        return state["epoch"] + 1

    def train(self, first, last):
        for epoch in range(first, last):
            self.sampler.set_epoch(epoch)
            for x, y in self.loader:
                self.optimizer.zero_grad()
                (self.model(x) - y).pow(2).mean().backward()
                self.optimizer.step()
            self.save(epoch)


def main():
    dist.init_process_group("gloo")
    Job("checkpoints").train(0, 2)
    job = Job("checkpoints")
    job.train(job.resume(), 4)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
