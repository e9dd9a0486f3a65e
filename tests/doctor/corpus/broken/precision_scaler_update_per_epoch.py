"""Updates the scaler where the learning rate is updated: once per epoch."""
# doctor: expect=scaler-never-updated also=left-early,collective-on-some-ranks style=function-per-epoch

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train_epoch(model, loader, optimizer, scaler):
    model.train()
    for x, y in loader:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        #+ scaler.update()
        optimizer.zero_grad(set_to_none=True)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(64, 10), torch.randn(64, 2))
    loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
    model = DistributedDataParallel(nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 2)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2048.0)
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        train_epoch(model, loader, optimizer, scaler)
        scheduler.step()
        scaler.update()  # wrong
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
