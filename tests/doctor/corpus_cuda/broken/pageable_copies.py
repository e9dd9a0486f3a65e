"""Trains on frames that workers prepare and that are copied to the GPU from pageable memory."""
# doctor: expect=pageable-copies style=flat mode=python threads=auto

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
torch.backends.cudnn.benchmark = True
device = torch.device("cuda")


class Frames(Dataset):
    """Every item is a whole batch."""

    def __init__(self, count):
        self.count = count
        self.frames = torch.randn(4, 64, 3, 192, 192)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.frames[index % 4], torch.full((64,), index % 10)


loader = DataLoader(Frames(90), batch_size=None, num_workers=6, prefetch_factor=4)  # wrong
# + loader = DataLoader(Frames(90), batch_size=None, num_workers=6, prefetch_factor=4, pin_memory=True)
model = nn.Sequential(
    nn.Conv2d(3, 96, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(96, 192, 3, stride=2, padding=1), nn.ReLU(),
    nn.Conv2d(192, 192, 3, padding=1), nn.ReLU(), nn.Conv2d(192, 192, 3, padding=1), nn.ReLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(192, 10),
).to(device)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

for x, y in loader:
    x = x.to(device)  # wrong
    y = y.to(device)  # wrong
    # + x = x.to(device, non_blocking=True)
    # + y = y.to(device, non_blocking=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
