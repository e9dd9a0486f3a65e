"""Scripts for one device, as text, and the same training written by hand for several ranks."""

HEAD = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
x = torch.randn(96, 12)
y = torch.randn(96, 4)
model = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
"""
# Sums of squares in double precision: equal for equal parameters, however they lie in memory.
TAIL = 'print("weights", [round(float(one.detach().double().square().sum()), 6) for one in model.parameters()])\n'
LOADER = f"""{HEAD}
for a, b in DataLoader(TensorDataset(x, y), batch_size=12):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(a), b).backward()
    optimizer.step()
{TAIL}"""
# Draws its batches itself, and looks at what the model has said.
DRAWN = f"""{HEAD}
for step in range(8):
    rows = torch.randint(0, 96, (12,))
    out = model(x[rows])
    loss = nn.functional.mse_loss(out, y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    near = ((out - y[rows]).abs() < 1).float().mean()
    assert 0 <= near.item() <= 1 and loss.item() > 0
    assert out.shape == (12, 4) and out.detach().numpy().shape == (12, 4) and len(out.tolist()) == 12
{TAIL}"""
READ_BEFORE = DRAWN.replace("    optimizer.zero_grad()\n", "    assert loss.item() > 0\n    optimizer.zero_grad()\n")
IN_THE_MODEL = f"""{HEAD}
class WithLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = model
    def forward(self, x, y):
        out = self.inner(x)
        return out, nn.functional.mse_loss(out, y)
whole = WithLoss()
for step in range(8):
    rows = torch.randint(0, 96, (12,))
    out, loss = whole(x[rows], y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
{TAIL}"""
BY_HAND = f"""
import os
import torch.distributed as dist
dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
{HEAD}
from torch.nn.parallel import DistributedDataParallel
wrapped = DistributedDataParallel(model)
for a, b in DataLoader(TensorDataset(x, y), batch_size=12):
    a, b = a.chunk(ranks)[rank], b.chunk(ranks)[rank]
    optimizer.zero_grad()
    nn.functional.mse_loss(wrapped(a), b).backward()
    optimizer.step()
{TAIL}"""
ACCUMULATED_BY_HAND = BY_HAND.replace(
    "    nn.functional.mse_loss(wrapped(a), b).backward()\n",
    """    with wrapped.no_sync():
        (nn.functional.mse_loss(wrapped(a[:3]), b[:3]) / 2).backward()
    (nn.functional.mse_loss(wrapped(a[3:]), b[3:]) / 2).backward()
""",
)
