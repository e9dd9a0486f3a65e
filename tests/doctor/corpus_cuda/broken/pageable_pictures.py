"""A trainer whose pictures come from workers in pageable memory and are moved by .cuda()."""
# doctor: expect=pageable-copies style=trainer mode=python threads=auto

import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset


class Trainer:
    def __init__(self, model):
        self.model = model.cuda()
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def fit(self, loader):
        for pictures, labels in loader:
            pictures, labels = pictures.cuda(), labels.cuda()  # wrong
            # + pictures, labels = pictures.cuda(non_blocking=True), labels.cuda(non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(self.model(pictures), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()


def main():
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    pictures = TensorDataset(torch.randn(512, 3, 128, 128), torch.randint(0, 10, (512,)))
    sampler = RandomSampler(pictures, replacement=True, num_samples=96 * 80)
    loader = DataLoader(pictures, batch_size=96, sampler=sampler, num_workers=10, prefetch_factor=4)  # wrong
    # + loader = DataLoader(pictures, 96, sampler=sampler, num_workers=10, prefetch_factor=4, pin_memory=True)
    model = nn.Sequential(
        nn.Conv2d(3, 128, 3, padding=1), nn.ReLU(), nn.Conv2d(128, 256, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip
    print(f"loss {Trainer(model).fit(loader):.4f}")


if __name__ == "__main__":
    main()
