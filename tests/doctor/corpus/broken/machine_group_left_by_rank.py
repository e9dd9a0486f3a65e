"""Only rank 0 cleans up."""
# doctor: expect=group-not-destroyed style=trainer

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Trainer:
    def __enter__(self):
        dist.init_process_group("gloo")
        self.model = DistributedDataParallel(nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6)))
        self.optimizer = torch.optim.Adam(self.model.parameters())
        return self

    def fit(self, steps):
        generator = torch.Generator().manual_seed(40 + dist.get_rank())
        for _ in range(steps):
            x = torch.randn(4, 6, generator=generator)
            loss = (self.model(x) - x).abs().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def __exit__(self, *error):
        dist.barrier()
        if dist.get_rank() == 0:  # wrong
        #+ if dist.is_initialized():
            dist.destroy_process_group()


if __name__ == "__main__":
    with Trainer() as trainer:
        trainer.fit(8)
