"""Trains a language model with an LSTM on a made-up text, in one process.

python word_lstm.py --batch 16 --length 24

`--time-first` turns a batch over, as torch's LSTM takes it by default, and `--carry` hands the hidden state from one
window to the next, as language models with an LSTM usually do. `--seed -1` seeds nothing.
"""

import argparse

import torch
from torch import Tensor, nn

WORDS = 500
State = tuple[Tensor, Tensor]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--batch", type=int, default=16, help="texts that are read side by side")
    parser.add_argument("--length", type=int, default=24, help="words of a window")
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--clip", type=float, default=0.25)
    parser.add_argument("--time-first", action="store_true")
    parser.add_argument("--carry", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


class WordModel(nn.Module):
    def __init__(self, width: int, layers: int, batch_first: bool) -> None:
        super().__init__()
        self.encoder = nn.Embedding(WORDS, width)
        self.rnn = nn.LSTM(width, width, layers, batch_first=batch_first)
        self.decoder = nn.Linear(width, WORDS)

    def forward(self, words: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        output, state = self.rnn(self.encoder(words), state)
        return self.decoder(output), state


def lines(batch: int, letters: int = 16_000) -> Tensor:
    """A text cut into lines that are read side by side, the same in every run."""
    generator = torch.Generator().manual_seed(7)
    words = torch.randint(1, 8, (letters,), generator=generator).cumsum(0) % WORDS
    return words[: letters // batch * batch].view(batch, -1)


def main() -> None:
    args = arguments()
    if args.seed >= 0:
        torch.manual_seed(args.seed)
    data = lines(args.batch).to(args.device)
    model = WordModel(args.width, args.layers, batch_first=not args.time_first).to(args.device)
    print(f"{sum(one.numel() for one in model.parameters()):,} parameters")
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    state = None
    for step in range(args.steps):
        begin = step * args.length % (data.size(1) - args.length - 1)
        words, targets = (data[:, one : one + args.length] for one in (begin, begin + 1))
        if args.time_first:
            words, targets = words.t(), targets.t()
        optimizer.zero_grad()
        output, left = model(words, state)
        state = (left[0].detach(), left[1].detach()) if args.carry else None
        loss = criterion(output.reshape(-1, WORDS), targets.reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
