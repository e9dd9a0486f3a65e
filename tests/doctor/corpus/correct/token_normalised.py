"""Language modelling with padding: the summed loss is divided by the tokens of all ranks and micro-batches."""
# doctor: expect= style=token-normalised

import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

PAD = 0
VOCAB = 40


class TinyLM(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, VOCAB)

    def forward(self, tokens):
        hidden, _ = self.rnn(self.embedding(tokens))
        return self.out(hidden)


def make_batch(generator, rows=4, length=12):
    tokens = torch.randint(1, VOCAB, (rows, length + 1), generator=generator)
    lengths = torch.randint(3, length + 1, (rows,), generator=generator)
    for row, n in enumerate(lengths.tolist()):
        tokens[row, n + 1 :] = PAD
    return tokens[:, :-1], tokens[:, 1:]


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1000 + rank)
    model = DDP(TinyLM())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    accumulate = 4

    for step in range(8):
        batches = [make_batch(generator) for _ in range(accumulate)]
        tokens = torch.tensor(sum(int((y != PAD).sum()) for _, y in batches), dtype=torch.float)
        dist.all_reduce(tokens)
        for i, (x, y) in enumerate(batches):
            last = i == accumulate - 1
            with contextlib.nullcontext() if last else model.no_sync():
                logits = model(x)
                loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=PAD, reduction="sum")
                # DDP averages over ranks, so the sum over ranks needs the world size back.
                (loss * world / tokens).backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and step % 4 == 0:
            print(step, loss.item() / int((y != PAD).sum()))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
