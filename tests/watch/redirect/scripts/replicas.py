"""nn.DataParallel over all devices, beside the same model without it: gradients, outputs, kinds of input and output."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(6, 6), nn.Linear(6, 3)
        self.register_buffer("scale", torch.full((1,), 2.0))
        self.seen = []

    def forward(self, x, *, shift):
        assert self.one.weight.device == x.device == self.scale.device == shift.device
        return {"out": self.two(self.one(x).relu()) * self.scale + shift, "where": (x.sum(),)}


torch.manual_seed(0)
model = Model().double().cuda()
wrapped = nn.DataParallel(model)
print("devices", wrapped.device_ids, torch.cuda.device_count())
x, shift = torch.randn(7, 6).double().cuda(), torch.randn(7, 3).double().cuda()
found = wrapped(x, shift=shift)
print("home", found["out"].device, tuple(found["out"].shape), tuple(found["where"][0].shape))
found["out"].pow(2).sum().backward()
gradients = [parameter.grad.clone() for parameter in model.parameters()]
model.zero_grad()
model(x, shift=shift)["out"].pow(2).sum().backward()
pairs = zip(gradients, model.parameters(), strict=True)
print("gradients", all(torch.allclose(ours, theirs.grad, rtol=1e-12, atol=1e-13) for ours, theirs in pairs))
with torch.no_grad():
    print("no gradient", wrapped(x, shift=shift)["out"].requires_grad)
print("two of them", nn.DataParallel(model, device_ids=[0, 1])(x, shift=shift)["out"].shape[0])
lost = Model().double().cuda(1)
try:
    nn.DataParallel(lost)(x, shift=shift)
except RuntimeError as error:
    print("refused", "device_ids[0]" in str(error))
