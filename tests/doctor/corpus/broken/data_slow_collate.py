"""One worker pads and packs the batches, more slowly than they are trained on; one process."""
# doctor: expect=input-bound style=functions mode=python

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PACKING_SECONDS = 0.06  # wrong
#+ PACKING_SECONDS = 0.0


class Sentences(Dataset):
    def __len__(self):
        return 80

    def __getitem__(self, index):
        return torch.arange(3 + index % 5)


def pack(sentences):
    time.sleep(PACKING_SECONDS)
    return nn.utils.rnn.pad_sequence(sentences, batch_first=True)


def train(model, loader, optimizer):
    for tokens in loader:
        time.sleep(0.02)  # stands for the rest of a larger model
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    torch.manual_seed(0)
    loader = DataLoader(Sentences(), batch_size=4, shuffle=True, num_workers=1, collate_fn=pack)
    model = nn.Sequential(nn.Embedding(16, 16), nn.Linear(16, 16))
    train(model, loader, torch.optim.Adam(model.parameters()))
