"""A model spread over so many logical devices; a hand-over is an operator of its own that copies both ways."""

import sys

import torch
from torch import nn

DEVICES, DEPTH, DIM, BATCH = int(sys.argv[1]), 4, 16, 8


@torch.library.custom_op("logical::move", mutates_args=())
def move(x: torch.Tensor, source: str, target: str) -> torch.Tensor:
    return x.clone()


def keep_way(ctx, inputs, output):
    _, ctx.source, ctx.target = inputs


move.register_autograd(
    lambda ctx, gradient: (torch.ops.logical.move(gradient, ctx.target, ctx.source), None, None),
    setup_context=keep_way,
)


class Spread(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(DIM, DIM) for _ in range(DEPTH))
        self.places = [f"logical:{i * DEVICES // DEPTH}" for i in range(DEPTH)]
        for layer, place in zip(self.layers, self.places, strict=True):
            for parameter in layer.parameters():
                parameter.logical_device = place

    def forward(self, x):
        here = self.places[0]
        for layer, place in zip(self.layers, self.places, strict=True):
            if place != here:
                x = torch.ops.logical.move(x, here, place)  # the hand-over
                here = place
            x = torch.relu(layer(x))
        return x


torch.manual_seed(0)
model = Spread()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(6):
    x, y = torch.randn(BATCH, DIM), torch.randn(BATCH, DIM)
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} {loss.item().hex()}", flush=True)
