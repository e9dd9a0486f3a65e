"""Half precision by autocast, and the loss goes backward as it is."""
# doctor: expect=fp16-without-scaler style=main-loop

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(128, 16), torch.randn(128, 4))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    #+ scaler = torch.amp.GradScaler("cpu")
    sampler.set_epoch(0)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = 1e-5 * nn.functional.mse_loss(model(x), y)
        #+ scaler.scale(loss).backward()
        #+ scaler.step(optimizer)
        #+ scaler.update()
        loss.backward()  # wrong
        optimizer.step()  # wrong
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
