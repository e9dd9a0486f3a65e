"""Detection: losses are summed over boxes and divided by the mean number of boxes over all ranks."""
# doctor: expect= style=detr

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Detector(nn.Module):
    def __init__(self, queries=6):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(24, 48), nn.ReLU())
        self.boxes = nn.Linear(48, queries * 4)
        self.scores = nn.Linear(48, queries)

    def forward(self, x):
        h = self.body(x)
        return {"boxes": self.boxes(h).view(len(x), -1, 4).sigmoid(), "scores": self.scores(h)}


class Criterion(nn.Module):
    weights = {"boxes": 5.0, "scores": 1.0}

    def forward(self, outputs, targets):
        count = torch.tensor([float(sum(len(one) for one in targets))])
        dist.all_reduce(count)
        count = torch.clamp(count / dist.get_world_size(), min=1)
        near = [(predicted[: len(true)] - true).abs().sum() for predicted, true in zip(outputs["boxes"], targets)]
        labels = torch.zeros_like(outputs["scores"])
        for row, one in enumerate(targets):
            labels[row, : len(one)] = 1
        scores = F.binary_cross_entropy_with_logits(outputs["scores"], labels, reduction="sum")
        return {"boxes": torch.stack(near).sum() / count, "scores": scores / count}


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model, criterion = DDP(Detector()), Criterion()
    optimizer = torch.optim.AdamW(
        [
            {"params": model.module.body.parameters(), "lr": 1e-5},
            {"params": [p for n, p in model.named_parameters() if "body" not in n]},
        ],
        lr=1e-4,
    )
    data = torch.Generator().manual_seed(50 + dist.get_rank())
    for _ in range(12):
        pictures = torch.randn(4, 24, generator=data)
        numbers = torch.randint(1, 6, (4,), generator=data).tolist()
        targets = [torch.rand(n, 4, generator=data) for n in numbers]
        parts = criterion(model(pictures), targets)
        loss = sum(parts[name] * weight for name, weight in criterion.weights.items())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
