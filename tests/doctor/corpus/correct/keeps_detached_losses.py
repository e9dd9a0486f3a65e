"""Keeps all losses as detached tensors, the best loss with its graph, and the mean over the last steps."""

# doctor: expect= style=loop
import collections

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    torch.manual_seed(7 + dist.get_rank())
    running, history, recent = torch.zeros(()), [], collections.deque(maxlen=3)
    best = None
    for step in range(18):
        x = torch.randn(8, 10)
        loss = nn.functional.mse_loss(model(x), 0.5 * x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.detach()
        history.append(loss.detach().clone())
        recent.append(loss)
        if best is None or loss < best:
            best = loss
        if step % 6 == 5 and dist.get_rank() == 0:
            print(f"step {step}: {running.item() / len(history):.4f}, {sum(float(one) for one in recent) / 3:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
