"""A callback at the end of each batch that frees what it can."""
# doctor: expect=cache-emptied-in-loop style=trainer mode=python

import gc

import torch
from torch import nn


class FreeMemory:
    def on_batch_end(self, step):
        #+ if step % 20 == 0:
        #+     gc.collect()
        gc.collect()  # wrong


class Trainer:
    def __init__(self, model, callbacks):
        self.model, self.callbacks = model, callbacks
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def fit(self, batches):
        for step, (x, y) in enumerate(batches):
            loss = nn.functional.mse_loss(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            for callback in self.callbacks:
                callback.on_batch_end(step)
        return loss.item()


def main():
    torch.manual_seed(0)
    batches = [(torch.randn(16, 8), torch.randn(16, 1)) for _ in range(30)]
    print(f"loss {Trainer(nn.Linear(8, 1), [FreeMemory()]).fit(batches):.4f}")


if __name__ == "__main__":
    main()
