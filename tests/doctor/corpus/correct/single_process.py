"""One process, no process group: accumulation with a plain loop, losses logged by their mean."""
# doctor: expect= style=single mode=python args=--epochs 3

import argparse
import logging

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

log = logging.getLogger(__name__)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--accumulate", type=int, default=2)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(160, 6), torch.rand(160, 1))
    train, test = random_split(data, [128, 32])
    model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    loss_fn = nn.BCEWithLogitsLoss()
    for epoch in range(args.epochs):
        model.train()
        optimizer.zero_grad()
        for number, (x, y) in enumerate(DataLoader(train, batch_size=8, shuffle=True)):
            loss_fn(model(x), y).div(args.accumulate).backward()
            if number % args.accumulate == args.accumulate - 1:
                optimizer.step()
                optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            loss = torch.stack([loss_fn(model(x), y) for x, y in DataLoader(test, batch_size=16)]).mean()
        scheduler.step(loss)
        log.info("epoch %d: %.4f", epoch, loss)


if __name__ == "__main__":
    main()
