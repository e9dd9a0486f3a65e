"""Samples with random noise, from this process or from workers; prints what it saw."""

import random
import sys

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    """Draws from one generator for each sample."""

    def __init__(self, generator):
        self.generator = generator

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if self.generator == "numpy":
            return np.random.rand()
        return random.random() if self.generator == "random" else float(torch.rand(()))


if __name__ == "__main__":
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    loader = DataLoader(Noisy(sys.argv[1]), batch_size=4, num_workers=int(sys.argv[2]), shuffle=True)
    for _epoch in range(2):
        print([batch.tolist() for batch in loader], flush=True)
    print(float(torch.rand(())), random.random(), np.random.rand())
