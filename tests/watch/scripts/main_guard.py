"""Looks at itself: __file__, argv, a relative path, __main__, and a class of its own through pickle."""

import pickle
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn


@dataclass
class State:
    step: int
    loss: float


def main() -> None:
    torch.manual_seed(0)
    model = nn.Linear(32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x, y = torch.randn(16, 32), torch.randn(16, 1)
    kept = Path("state.pickle")
    for step in range(6):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        kept.write_bytes(pickle.dumps(State(step, loss.item())))
        state = pickle.loads(kept.read_bytes())
        print(f"step {state.step} {state.loss.hex()}", flush=True)
    print(__name__, __file__, sys.argv, State.__module__, sys.path[0], sys.modules["__main__"].State is State)
    print(sorted(name for name in globals() if not name.startswith("_")), flush=True)


if __name__ == "__main__":
    main()
