"""A model over two GPUs of one process, hooks that move, threads, checkpoints, wrappers: each says where it is."""

import copy
import io
import threading

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8).to("cuda:0")
        self.second = nn.Linear(8, 8, device="cuda:1")
        self.register_buffer("scale", torch.ones(8, device="cuda:1"))

    def forward(self, x):
        return self.second(self.first(x.to("cuda:0")).relu().to("cuda:1")) * self.scale


class Doubled(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(ctx, x):
        return x * 2

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, gradient):
        return (gradient * 2).to("cuda")


assert torch.cuda.device_count() >= 2
model = Two()
optimizer = torch.optim.Adam(model.parameters())
kept = {name: value.detach().cpu() for name, value in model.state_dict().items()}
before = copy.deepcopy(kept)
loader = DataLoader(TensorDataset(torch.randn(32, 8), torch.randn(32, 8)), batch_size=8, pin_memory=True)
for x, y in loader:
    assert x.device.type == "cpu"
    output = model(x)
    loss = nn.functional.mse_loss(output, y.to(output.device))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
print("parameters", *sorted({str(parameter.device) for parameter in model.parameters()}), model.scale.device)
print("copies on the host are left alone", all(torch.equal(kept[name], before[name]) for name in kept))
x = torch.randn(3, device="cuda", requires_grad=True)
x.register_hook(lambda gradient: gradient.to("cuda:0") * 1.0)
Doubled.apply(x).sum().backward()
print("gradient", x.grad.device, x.is_leaf, x.grad.tolist())
for reentrant in (True, False):
    inputs = torch.randn(2, 8, device="cuda", requires_grad=True)
    checkpoint(model.first, inputs, use_reentrant=reentrant).sum().backward()
file = io.BytesIO()
torch.save(model.state_dict(), file)
for place in ("cuda:1", torch.device("cuda"), {"cuda:0": "cuda:1"}, lambda storage, _: storage.cuda(0), None):
    file.seek(0)
    weights = torch.load(file, map_location=place)
model.load_state_dict(weights)
found = []
thread = threading.Thread(target=lambda: found.append(torch.zeros(2).to("cuda").device))
thread.start()
thread.join()
print("thread", found[0], "copy", next(copy.deepcopy(model).parameters()).device)
print("moves", torch.zeros(2).cuda(1).get_device(), torch.zeros(2).to(0).device, x.cpu().device, x.double().device)
print("made", torch.randn_like(x).device, torch.cat([x, x]).device, x.new_zeros(2).device, x.sum().device, x[0].device)
with torch.autocast("cuda", dtype=torch.bfloat16):
    print("autocast", torch.is_autocast_enabled(), (torch.randn(2, 8).cuda() @ torch.randn(8, 8).cuda()).dtype)
nn.DataParallel(nn.Linear(8, 8).cuda())(torch.randn(4, 8).cuda()).sum().backward()
