"""Encoder and decoder on GPUs of their own, called one after the other by a trainer."""

# doctor: expect=one-device-at-a-time style=trainer mode=python on=cpu
import torch
from torch import nn

FIRST, SECOND = torch.device("cuda", 0), torch.device("cuda", 1)


class Trainer:
    def __init__(self):
        torch.manual_seed(3)
        self.encoder = nn.Sequential(nn.Linear(20, 24), nn.Tanh(), nn.Linear(24, 8)).to(FIRST)
        self.decoder = nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 20)).to(SECOND)
        parameters = [*self.encoder.parameters(), *self.decoder.parameters()]
        self.optimizer = torch.optim.Adam(parameters, lr=1e-3)

    def reconstruct(self, batch):
        return self.decoder(self.encoder(batch.to(FIRST)).to(SECOND))

    def fit(self, batches):
        for batch in batches:
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.reconstruct(batch), batch.to(SECOND))  # wrong
            #+ codes = [self.encoder(piece.to(FIRST)).to(SECOND) for piece in batch.chunk(4)]
            #+ made = torch.cat([self.decoder(code) for code in codes])
            #+ loss = nn.functional.mse_loss(made, batch.to(SECOND))
            loss.backward()
            self.optimizer.step()


def main():
    trainer = Trainer()
    trainer.fit(torch.randn(10, 16, 20).unbind())
    print("done")


if __name__ == "__main__":
    main()
