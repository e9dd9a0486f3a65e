"""Models whose input is (time, batch), and some whose input is not: 7 steps of time, 5 samples."""

import sys

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

TIME, BATCH, FEATURES = 7, 5, 16


class Recurrent(nn.Module):
    """Words in, classes out; `first` says what the input's first dimension is."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.embedding = nn.Embedding(20, FEATURES)
        self.layer = nn.LSTM(FEATURES, FEATURES, batch_first=kind == "batch_first")
        self.head = nn.Linear(FEATURES, 3)

    def forward(self, words):
        hidden = self.embedding(words)
        if self.kind == "transposed":
            hidden = hidden.transpose(0, 1)
        if self.kind == "packed":
            hidden = pack_padded_sequence(hidden, torch.arange(TIME, TIME - BATCH, -1))
        hidden, _ = self.layer(hidden)
        return self.head(hidden.data)


class Attentive(nn.Module):
    """The same with attention, with a mask or without one."""

    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, FEATURES)
        self.layer = nn.TransformerEncoderLayer(FEATURES, 2, 32)
        self.head = nn.Linear(FEATURES, 3)
        self.mask = nn.Transformer.generate_square_subsequent_mask(TIME) if masked else None

    def forward(self, words):
        return self.head(self.layer(self.embedding(words), src_mask=self.mask))


kind = sys.argv[1]
torch.manual_seed(0)
if kind == "alone":
    model = nn.GRU(FEATURES, FEATURES)
elif kind in ("masked", "unmasked"):
    model = Attentive(kind == "masked")
else:
    model = Recurrent(kind)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
shape = (BATCH, TIME) if kind in ("batch_first", "transposed", "unmasked") else (TIME, BATCH)
shape = (BATCH, BATCH) if kind == "square" else shape
for step in range(6):
    data = torch.randn(*shape, FEATURES) if kind == "alone" else torch.randint(0, 20, shape)
    output = model(words=data) if kind == "lstm" else model(data)
    loss = (output[0] if kind == "alone" else output).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} {loss.item().hex()}", flush=True)
