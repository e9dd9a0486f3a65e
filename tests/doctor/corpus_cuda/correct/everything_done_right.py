"""Trains in bfloat16 with pinned memory, tuned convolutions, a fused optimizer and a loss that is read now and then."""
# doctor: expect= style=function mode=python threads=auto

import gc

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Frames(Dataset):
    def __init__(self, count):
        self.count, self.frames = count, torch.randn(4, 32, 3, 128, 128)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.frames[index % 4], torch.full((32,), index % 10)


def main():
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    loader = DataLoader(Frames(45), batch_size=None, num_workers=4, pin_memory=True, persistent_workers=True)
    model = nn.Sequential(
        nn.Conv2d(3, 128, 3, padding=1), nn.ReLU(), nn.Conv2d(128, 256, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10),
    ).cuda()  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for epoch in range(2):
        for step, (x, y) in enumerate(loader):
            x, y = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 20 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}")
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
