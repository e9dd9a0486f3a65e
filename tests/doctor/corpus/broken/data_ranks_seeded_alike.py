"""Noise is added to every sample when it is fetched."""
# doctor: expect=worker-seeds-equal style=trainer args=--seed 3

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Noisy(Dataset):
    def __init__(self, clean):
        self.clean = clean

    def __len__(self):
        return len(self.clean)

    def __getitem__(self, index):
        sample = self.clean[index]
        return sample + 0.1 * torch.randn_like(sample), sample


class Denoiser:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 12)))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        dataset = Noisy(torch.rand(80, 12))
        self.sampler = DistributedSampler(dataset)
        self.loader = DataLoader(dataset, batch_size=8, sampler=self.sampler)

    def run(self, epochs):
        for epoch in range(epochs):
            self.sampler.set_epoch(epoch)
            for noisy, clean in self.loader:
                self.optimizer.zero_grad()
                loss = nn.functional.mse_loss(self.model(noisy), clean)
                loss.backward()
                self.optimizer.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    denoiser = Denoiser(args.seed)
    denoiser.run(2)  # wrong
    #+ torch.manual_seed(args.seed + dist.get_rank())
    #+ denoiser.run(2)
    dist.destroy_process_group()
