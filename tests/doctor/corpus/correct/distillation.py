"""Distillation: a teacher that is never trained runs beside the student, and only the student is wrapped."""
# doctor: expect= style=functions

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def mlp(width):
    return nn.Sequential(nn.Linear(18, width), nn.ReLU(), nn.Linear(width, 6))


def main(temperature=2.0):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    teacher = mlp(64).eval().requires_grad_(False)
    student = DistributedDataParallel(mlp(16))
    data = TensorDataset(torch.randn(128, 18), torch.randint(0, 6, (128,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=16, sampler=sampler)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1, nesterov=True, momentum=0.9)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            soft = F.softmax(teacher(x) / temperature, dim=1)
            out = student(x)
            hard = F.cross_entropy(out, y)
            kd = F.kl_div(F.log_softmax(out / temperature, dim=1), soft, reduction="batchmean") * temperature**2
            optimizer.zero_grad()
            (0.3 * hard + 0.7 * kd).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
