"""Trains a small ResNet with batch normalisation on made-up pictures of a DataLoader, in one process.

python small_resnet.py --batch 32 --pictures 320

`--seed -1` seeds nothing.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 10


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--pictures", type=int, default=320, help="of one epoch")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--size", type=int, default=24, help="pixels of an edge")
    parser.add_argument("--width", type=int, default=16, help="channels of the first layers")
    parser.add_argument("--blocks", type=int, default=2, help="of each of three stages")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


class Residual(nn.Module):
    def __init__(self, inward: int, outward: int, stride: int) -> None:
        super().__init__()
        self.conv_1 = nn.Conv2d(inward, outward, 3, stride, padding=1, bias=False)
        self.norm_1 = nn.BatchNorm2d(outward)
        self.conv_2 = nn.Conv2d(outward, outward, 3, padding=1, bias=False)
        self.norm_2 = nn.BatchNorm2d(outward)
        self.shortcut = nn.Sequential()
        if stride != 1 or inward != outward:
            self.shortcut = nn.Sequential(nn.Conv2d(inward, outward, 1, stride, bias=False), nn.BatchNorm2d(outward))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm_1(self.conv_1(x)))
        return F.relu(self.norm_2(self.conv_2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.stage_1 = self._stage(width, width, blocks, 1)
        self.stage_2 = self._stage(width, 2 * width, blocks, 2)
        self.stage_3 = self._stage(2 * width, 4 * width, blocks, 2)
        self.fc = nn.Linear(4 * width, CLASSES)

    @staticmethod
    def _stage(inward: int, outward: int, blocks: int, stride: int) -> nn.Sequential:
        first = Residual(inward, outward, stride)
        return nn.Sequential(first, *(Residual(outward, outward, 1) for _ in range(blocks - 1)))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stage_3(self.stage_2(self.stage_1(self.stem(x))))
        x = F.adaptive_avg_pool2d(x, 1)
        return self.fc(torch.flatten(x, 1))


def pictures(number: int, size: int) -> TensorDataset:
    """Noise, in which each class has its own pattern."""
    generator = torch.Generator().manual_seed(7)
    patterns = torch.randn(CLASSES, 3, size, size, generator=generator)
    labels = torch.randint(CLASSES, (number,), generator=generator)
    return TensorDataset(patterns[labels] + torch.randn(number, 3, size, size, generator=generator), labels)


def main() -> None:
    args = arguments()
    if args.seed >= 0:
        torch.manual_seed(args.seed)
    loader = DataLoader(pictures(args.pictures, args.size), batch_size=args.batch, shuffle=True)
    model = ResNet(args.width, args.blocks).to(args.device)
    print(f"{sum(one.numel() for one in model.parameters()):,} parameters")
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)
    for epoch in range(args.epochs):
        model.train()
        for step, (images, labels) in enumerate(loader):
            optimizer.zero_grad()
            loss = criterion(model(images.to(args.device)), labels.to(args.device))
            loss.backward()
            optimizer.step()
            print(f"epoch {epoch} step {step} loss {loss.item():.6f}", flush=True)
        schedule.step()


if __name__ == "__main__":
    main()
