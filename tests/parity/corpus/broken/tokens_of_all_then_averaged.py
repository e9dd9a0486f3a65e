"""Each rank divides its summed loss by the tokens of all ranks, and DDP averages on top."""
# parity: cause=divided-once-too-often

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(20, 12), nn.Linear(12, 20)

    def forward(self, tokens, labels):
        logits = self.head(self.embed(tokens))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(9 + dist.get_rank())
    for _ in range(8):
        tokens = torch.randint(0, 20, (4, 10), generator=generator)
        labels = tokens.roll(-1, 1)
        labels[torch.rand(4, 10, generator=generator) < 0.3] = -100
        counted = (labels != -100).sum()
        dist.all_reduce(counted)
        loss = model(tokens, labels) / counted  # wrong
        # + loss = model(tokens, labels) * dist.get_world_size() / counted
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
