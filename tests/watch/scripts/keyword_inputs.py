"""A model called as transformers are: keyword inputs from a dict, an output object that carries the loss."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Output:
    loss: torch.Tensor
    logits: torch.Tensor


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, 32)
        self.head = nn.Linear(32, 4)

    def forward(self, input_ids=None, attention_mask=None, labels=None) -> Output:
        hidden = (self.embedding(input_ids) * attention_mask.unsqueeze(-1)).mean(1)
        logits = self.head(hidden)
        return Output(nn.functional.cross_entropy(logits, labels), logits)


torch.manual_seed(0)
model = Classifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
batch = {
    "input_ids": torch.randint(0, 100, (12, 10)),
    "attention_mask": torch.ones(12, 10),
    "labels": torch.randint(0, 4, (12,)),
}
for step in range(6):
    output = model(**batch)
    output.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} {output.loss.item().hex()}", flush=True)
