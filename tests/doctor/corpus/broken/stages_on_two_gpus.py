"""A network whose halves lie on two GPUs, as it did not fit on one."""

# doctor: expect=one-device-at-a-time style=main mode=python on=cpu
import torch
from torch import nn


class TwoHalves(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.front = nn.Sequential(nn.Linear(16, width), nn.ReLU(), nn.Linear(width, width)).to("cuda:0")
        self.back = nn.Sequential(nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4)).to("cuda:1")

    def forward(self, x):
        return self.back(self.front(x.to("cuda:0")).to("cuda:1"))  # wrong
        #+ ahead = [self.front(piece).to("cuda:1") for piece in x.to("cuda:0").chunk(4)]
        #+ return torch.cat([self.back(piece) for piece in ahead])


def main():
    torch.manual_seed(0)
    model = TwoHalves()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    inputs, labels = torch.randn(128, 16), torch.randint(0, 4, (128,))
    for start in range(0, 128, 16):
        output = model(inputs[start : start + 16])
        loss = nn.functional.cross_entropy(output, labels[start : start + 16].to("cuda:1"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"last loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
