"""A recommender: each rank looks all samples up in its own table, and goes on with its part of the batch."""

# doctor: style=functions
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset


class Exchange(torch.autograd.Function):
    """Sends each rank its samples' rows, and their gradients back."""

    @staticmethod
    def forward(ctx, rows):
        received = torch.empty_like(rows)
        dist.all_to_all_single(received, rows.contiguous())
        return received

    @staticmethod
    def backward(ctx, gradient):
        sent_back = torch.empty_like(gradient)
        dist.all_to_all_single(sent_back, gradient.contiguous())
        return sent_back


class Recommender(nn.Module):
    def __init__(self, rank, ranks):
        super().__init__()
        self.rank, self.ranks = rank, ranks
        self.table = nn.Embedding(100, 8)
        self.top = DistributedDataParallel(nn.Sequential(nn.Linear(8 * ranks, 16), nn.ReLU(), nn.Linear(16, 1)))

    def forward(self, items):
        mine = len(items) // self.ranks
        rows = Exchange.apply(self.table(items[:, self.rank]))
        return self.top(rows.view(self.ranks, mine, 8).transpose(0, 1).reshape(mine, -1)).squeeze(1)


def main():
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    generator = torch.Generator().manual_seed(0)
    items = torch.randint(100, (320, ranks), generator=generator)
    dataset = TensorDataset(items, torch.rand(320, generator=generator))
    loader = DataLoader(dataset, batch_size=32)
    torch.manual_seed(rank)
    model = Recommender(rank, ranks)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for items, clicked in loader:
        mine = len(items) // ranks
        guess = model(items)
        loss = nn.functional.mse_loss(guess, clicked[rank * mine : (rank + 1) * mine])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
