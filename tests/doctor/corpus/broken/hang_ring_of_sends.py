"""Passes a block of keys round a ring of ranks, as ring attention does, and trains on what comes."""

# doctor: expect=send-send style=class ranks=3 stall=3
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Ring:
    def __init__(self):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.right, self.left = (self.rank + 1) % self.size, (self.rank - 1) % self.size

    def rotate(self, block):
        incoming = torch.empty_like(block)
        dist.send(block, self.right)  # wrong
        dist.recv(incoming, self.left)  # wrong
        #+ requests = [dist.isend(block, self.right), dist.irecv(incoming, self.left)]
        #+ for request in requests:
        #+     request.wait()
        return incoming


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query, self.out = nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, x, keys):
        weights = (self.query(x) @ keys.transpose(-1, -2)).softmax(-1)
        return self.out(weights @ keys)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    ring = Ring()
    model = DistributedDataParallel(Block(16))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    torch.manual_seed(10 + ring.rank)
    step = 0
    while step < 6:
        x = torch.randn(4, 8, 16)
        keys = ring.rotate(x.mean(0))
        loss = model(x, keys).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        step += 1
    dist.destroy_process_group()


main()
