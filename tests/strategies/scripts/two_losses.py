"""Trains one encoder for two tasks, to name the class of its input and to draw it again, in one process.

python two_losses.py --batch 64 --samples 1024

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
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--samples", type=int, default=1024, help="of one epoch")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--inputs", type=int, default=256, help="numbers of a sample")
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--weight", type=float, default=0.5, help="of the second loss")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


class TwoTasks(nn.Module):
    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width // 4), nn.ReLU())
        self.classifier = nn.Linear(width // 4, CLASSES)
        self.decoder = nn.Sequential(nn.Linear(width // 4, width), nn.ReLU(), nn.Linear(width, inputs))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        code = self.encoder(x)
        return self.classifier(code), self.decoder(code)


def samples(number: int, inputs: int) -> TensorDataset:
    """Noise around a centre of each class."""
    generator = torch.Generator().manual_seed(7)
    centres = torch.randn(CLASSES, inputs, generator=generator)
    labels = torch.randint(CLASSES, (number,), generator=generator)
    return TensorDataset(centres[labels] + torch.randn(number, inputs, generator=generator), labels)


def main() -> None:
    args = arguments()
    if args.seed >= 0:
        torch.manual_seed(args.seed)
    loader = DataLoader(samples(args.samples, args.inputs), batch_size=args.batch, shuffle=True)
    model = TwoTasks(args.inputs, args.width).to(args.device)
    print(f"{sum(one.numel() for one in model.parameters()):,} parameters")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        for step, (x, labels) in enumerate(loader):
            x, labels = x.to(args.device), labels.to(args.device)
            scores, drawn = model(x)
            named, redrawn = F.cross_entropy(scores, labels), F.mse_loss(drawn, x)
            loss = named + args.weight * redrawn
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"epoch {epoch} step {step} loss {loss.item():.6f} ({named.item():.4f}, {redrawn.item():.4f})")


if __name__ == "__main__":
    main()
