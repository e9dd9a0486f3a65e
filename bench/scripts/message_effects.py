"""Times all-reduces of a few sizes, each in several settings: what the messages of a training step may meet.

torchrun --nproc-per-node 2 message_effects.py --seconds 4

Settings, in turn: *again* sends one buffer over and over; *rotating* takes the next of many buffers that together are
larger than the caches; *copied* has just been filled from elsewhere, as DDP's bucket is; *late* comes to one rank after
the others, by as much as the message takes, and counts from then on. All begin after a barrier; the slowest counts.
"""

import argparse
import json
import os
import time
from collections import defaultdict
from statistics import median

import torch
import torch.distributed as dist

RANK, RANKS = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
SIZES = (1 << 18, 1 << 20, 1 << 22)
POOL_BYTES = 96 << 20
SETTINGS = ("again", "rotating", "copied", "late")


class Buffers:
    """Messages of one size."""

    def __init__(self, size: int) -> None:
        self.pool = [torch.ones(size // 4) for _ in range(POOL_BYTES // size)]
        self.gradients = torch.ones(POOL_BYTES // 4)
        self.at = 0

    def next(self, setting: str) -> torch.Tensor:
        """The message of this setting."""
        if setting == "again":
            self.pool[0].fill_(1.0)
            return self.pool[0]
        self.at = 1 + self.at % (len(self.pool) - 1)
        message = self.pool[self.at]
        if setting == "copied":
            message.copy_(self.gradients.narrow(0, len(message) * self.at, len(message)))
        return message


def seconds_of(message: torch.Tensor, delay: float) -> float:
    """The time from when the last rank may send to when the slowest has the sum."""
    weight = torch.ones(512, 512)
    weight @ weight  # threads are awake, as in training
    dist.barrier()
    began = time.perf_counter()
    while RANK == RANKS - 1 and time.perf_counter() - began < delay:
        pass
    dist.all_reduce(message)
    took = torch.tensor([time.perf_counter() - began])
    dist.all_reduce(took, dist.ReduceOp.MAX)
    message.fill_(1.0)
    return float(took) - delay


def main() -> None:
    """Goes through sizes and settings until the time is over; rank 0 prints medians in seconds as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=4.0)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(RANK)
    found: dict[str, list[float]] = defaultdict(list)
    for size in SIZES:
        buffers, end = Buffers(size), time.monotonic() + args.seconds / len(SIZES)
        seconds_of(buffers.next("rotating"), 0.0)
        usual = seconds_of(buffers.next("rotating"), 0.0)
        over = torch.zeros(1)
        while not over.item():
            for setting in SETTINGS:
                found[f"{size} {setting}"].append(seconds_of(buffers.next(setting), usual * (setting == "late")))
            over.fill_(float(time.monotonic() > end))
            dist.broadcast(over, 0)
    if RANK == 0:
        print(json.dumps({name: [median(times), len(times)] for name, times in found.items()}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
