"""Batches of graphs in an object of the script's own: the model is fed the nodes of all graphs of a batch at once."""

import sys
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader


@dataclass
class Graphs:
    nodes: torch.Tensor
    of: torch.Tensor  # which graph a node belongs to
    labels: torch.Tensor


def together(graphs):
    of = torch.arange(len(graphs)).repeat_interleave(torch.tensor([len(nodes) for nodes, _ in graphs]))
    return Graphs(torch.cat([nodes for nodes, _ in graphs]), of, torch.stack([label for _, label in graphs]))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(32, 32), nn.Linear(32, 1)

    def forward(self, nodes, of, graphs):
        sums = torch.zeros(graphs, 32).index_add(0, of, self.inner(nodes).relu())
        return self.outer(sums).squeeze(1)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    dataset = [(torch.randn(3 + number % 5, 32), torch.randn(())) for number in range(44)]
    loader = DataLoader(dataset, batch_size=16, shuffle=True, collate_fn=together, num_workers=int(sys.argv[1]))
    step = 0
    for _epoch in range(2):
        for batch in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(batch.nodes, batch.of, len(batch.labels)), batch.labels)
            loss.backward()
            optimizer.step()
            print(f"step {step} {loss.item().hex()}", flush=True)
            step += 1
