"""A wrapper of the script's own passes everything on by name, as frameworks do."""
# doctor: expect= style=keywords

import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 3))

    def forward(self, *, inputs):
        return self.layers(input=inputs)


dist.init_process_group(backend="gloo")
torch.manual_seed(seed=2)
net = Net()
model = DistributedDataParallel(module=net, device_ids=None)
optimizer = torch.optim.SGD(params=model.parameters(), lr=0.05)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer=optimizer, lr_lambda=lambda step: 0.9**step)
scaler = torch.amp.GradScaler(device="cpu", init_scale=64.0)
dataset = TensorDataset(torch.randn(384, 8), torch.randint(0, 3, (384,)))
sampler = DistributedSampler(dataset=dataset, shuffle=True)
loader = DataLoader(dataset=dataset, batch_size=24, sampler=sampler)
for epoch in range(2):
    sampler.set_epoch(epoch=epoch)
    for inputs, labels in loader:
        with torch.autocast(device_type="cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(input=model(inputs=inputs), target=labels)
        torch.autograd.backward(tensors=scaler.scale(outputs=loss))
        scaler.unscale_(optimizer=optimizer)
        nn.utils.clip_grad_norm_(parameters=model.parameters(), max_norm=1.0)
        scaler.step(optimizer=optimizer)
        scaler.update(new_scale=None)
        optimizer.zero_grad(set_to_none=True)
    scheduler.step()
    total = loss.detach()
    dist.all_reduce(tensor=total, op=dist.ReduceOp.SUM)
    if dist.get_rank() == 0:
        with tempfile.TemporaryDirectory() as folder:
            torch.save(obj=net.state_dict(), f=os.path.join(folder, "net.pt"))
    dist.barrier()
dist.destroy_process_group()
