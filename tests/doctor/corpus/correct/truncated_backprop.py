"""A language model over one long text: hidden state is handed on between windows and detached, nothing is shuffled."""
# doctor: expect= style=rnn

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Recurrent(nn.Module):
    def __init__(self, vocabulary=30, width=24):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, tokens, state):
        hidden, state = self.lstm(self.embed(tokens), state)
        return self.out(hidden), state


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    text = torch.randint(0, 30, (8 * world, 97), generator=torch.Generator().manual_seed(5))
    mine = text[rank::world]  # every rank reads its own rows of the text, in order
    model = DDP(Recurrent())
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for _ in range(2):
        state = None
        for start in range(0, mine.size(1) - 1, 12):
            x, y = mine[:, start : start + 12], mine[:, start + 1 : start + 13]
            if state is not None:
                state = tuple(part.detach() for part in state)
            logits, state = model(x, state)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
            model.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            optimizer.step()
        scheduler.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
