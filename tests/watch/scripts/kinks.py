"""Trains through ReLUs of every spelling, before which one value is zero but for rounding."""

import torch
import torch.nn.functional as F
from torch import nn

values = nn.Parameter(torch.tensor([1.0, -1.0, 1e-9, -2.0]))
optimizer = torch.optim.SGD([values], lr=0.0)
spelled = {
    "module": nn.ReLU(),
    "in place": nn.ReLU(inplace=True),
    "function": F.relu,
    "leaky": F.leaky_relu,
    "method": lambda x: x.relu(),
    "half": lambda x: torch.relu(x.bfloat16()).float(),
}
for name, function in spelled.items():
    optimizer.zero_grad()
    function(values * 1.0).sum().backward()
    optimizer.step()
    print(name, [round(one, 3) for one in values.grad.tolist()])
with torch.no_grad():
    print("unlearnt", [one > 0 for one in torch.relu(values).tolist()])
