"""Text and picture towers on a GPU each: called one after the other, they work at the same time."""

# doctor: expect= style=main mode=python on=cpu
import torch
from torch import nn


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.text = nn.Sequential(nn.Embedding(50, 16), nn.Flatten(), nn.Linear(64, 12)).to("cuda:0")
        self.picture = nn.Sequential(nn.Linear(30, 24), nn.ReLU(), nn.Linear(24, 12)).to("cuda:1")

    def forward(self, words, pixels):
        text = self.text(words.to("cuda:0"))
        picture = self.picture(pixels.to("cuda:1"))
        return text, picture.to("cuda:0")


def main():
    torch.manual_seed(0)
    model = Towers()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(8):
        text, picture = model(torch.randint(0, 50, (8, 4)), torch.randn(8, 30))
        loss = nn.functional.cross_entropy(text @ picture.T, torch.arange(8, device="cuda:0"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
