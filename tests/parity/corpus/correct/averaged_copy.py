"""A teacher that is a running average of the student, and a loss of two parts."""
# parity: 

import copy

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    student = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    teacher = copy.deepcopy(student).requires_grad_(False)
    model = DDP(student)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(96, 8), torch.randint(0, 4, (96,)))
    for x, y in DataLoader(data, batch_size=8, sampler=DistributedSampler(data)):
        with torch.no_grad():
            wanted = teacher(x).softmax(1)
        out = model(x)
        loss = F.cross_entropy(out, y) + 0.5 * F.kl_div(out.log_softmax(1), wanted, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), student.parameters()):
                slow.lerp_(fast, 0.1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
