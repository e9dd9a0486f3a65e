"""A trainer with micro-batches that remembers all its losses to plot them at the end."""

# doctor: expect=losses-kept style=trainer
import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Trainer:
    def __init__(self, accumulate=2):
        torch.manual_seed(1)
        self.net = DDP(nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.LayerNorm(24), nn.Linear(24, 12)))
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-3)
        self.accumulate = accumulate
        self.history = {"loss": [], "rate": []}

    def micro_batch(self, batch, sync):
        with contextlib.nullcontext() if sync else self.net.no_sync():
            loss = nn.functional.mse_loss(self.net(batch), batch) / self.accumulate
            loss.backward()
        return loss

    def step(self, batches):
        losses = [self.micro_batch(batch, sync=batch is batches[-1]) for batch in batches]
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.history["loss"].append(sum(losses))  # wrong
        #+ self.history["loss"].append(sum(float(loss.detach()) for loss in losses))
        self.history["rate"].append(self.optimizer.param_groups[0]["lr"])


def main():
    dist.init_process_group("gloo")
    trainer = Trainer()
    generator = torch.Generator().manual_seed(100 + dist.get_rank())
    for _ in range(14):
        trainer.step([torch.randn(8, 12, generator=generator) for _ in range(trainer.accumulate)])
    curve = torch.tensor([float(loss) for loss in trainer.history["loss"]])
    if dist.get_rank() == 0:
        print(f"loss from {curve[0]:.4f} to {curve[-1]:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
