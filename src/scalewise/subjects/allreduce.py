"""Runs one all-reduce, or another collective, per optimizer step, over many sizes: what the ranks' link costs.

torchrun --nproc-per-node 2 allreduce.py --sizes 4,1024,1048576 --repeats 8

Every size has a buffer of its own, and all sizes take turns: what is sent was not in a cache a moment ago. With --hot
it has just been copied from a buffer elsewhere, as DDP copies gradients into its bucket.
"""

import argparse
import os
import time
from typing import NoReturn

import torch
import torch.distributed as dist
from torch import nn

RANK = int(os.environ.get("RANK", "0"))
LOCAL_RANK = int(os.environ.get("LOCAL_RANK", "0"))
RANKS = int(os.environ.get("WORLD_SIZE", "1"))
FLOAT_BYTES = 4
SIZES = tuple(FLOAT_BYTES * 4**power for power in range(13))  # 4 B to 64 MiB
KINDS = ("all_reduce", "all_gather", "reduce_scatter")
LARGE = ((1 << 24, 4), (1 << 22, 2))  # where time is limited: from so many bytes on only in every so manieth round


class Parser(argparse.ArgumentParser):
    """A parser that refuses in one sentence instead of a page of usage."""

    def error(self, message: str) -> NoReturn:
        """Writes one line on stderr and exits with code 2."""
        self.exit(2, f"allreduce.py: {message}\n")


def sizes_of(text: str) -> tuple[int, ...]:
    """The numbers of bytes in a text with commas between."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 and int(part) % FLOAT_BYTES == 0 for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of bytes, each a multiple of {FLOAT_BYTES}")
    return tuple(int(part) for part in parts)


def kinds_of(text: str) -> tuple[str, ...]:
    """The collectives in a text with commas between."""
    parts = tuple(part.strip() for part in text.split(","))
    if not set(parts) <= set(KINDS):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of collectives: {', '.join(KINDS)}")
    return parts


def arguments() -> argparse.Namespace:
    """The command line, checked against the number of ranks."""
    parser = Parser(description="Makes one all-reduce per step.")
    parser.add_argument("--sizes", type=sizes_of, default=SIZES, help="bytes, with commas between")
    parser.add_argument("--kinds", type=kinds_of, default=KINDS[:1], help="of collectives, with commas between")
    parser.add_argument("--hot", action="store_true", help="copy and compute right before each, as training does")
    parser.add_argument("--repeats", type=int, default=9, help="all-reduces of each size; the first warms up")
    parser.add_argument("--seconds", type=float, help="no round begins later; large messages then come less often")
    args = parser.parse_args()
    if args.seconds is not None and not args.seconds > 0:
        parser.error(f"--seconds must be more than 0, not {args.seconds:g}")
    if args.repeats < 2:
        parser.error(f"--repeats must be at least 2, for the first of each size warms up, not {args.repeats}")
    if RANKS < 2:
        parser.error("an all-reduce needs 2 ranks or more; start it by torchrun --nproc-per-node 2")
    if torch.cuda.is_available() and torch.cuda.device_count() <= LOCAL_RANK:
        parser.error(f"rank {RANK} has no GPU of its own: {torch.cuda.device_count()} visible")
    return args


def whole(size_bytes: int, device: torch.device) -> torch.Tensor:
    """A message of that size, or a little more: it must divide into as many pieces as there are ranks."""
    piece = -(-size_bytes // FLOAT_BYTES // RANKS) if size_bytes >= RANKS * FLOAT_BYTES else 0
    return torch.ones(piece * RANKS or size_bytes // FLOAT_BYTES, device=device)


def send(kind: str, message: torch.Tensor) -> None:
    """Runs one collective; its result does not matter."""
    if kind == "all_reduce":
        dist.all_reduce(message)
        return
    piece = message[: len(message) // RANKS].clone()
    if kind == "all_gather":
        dist.all_gather_into_tensor(message, piece)
    else:
        dist.reduce_scatter_tensor(piece, message)


def turns_of(message: torch.Tensor) -> int:
    """The number of rounds of which a message takes part in one, if time is limited."""
    return next((rounds for size, rounds in LARGE if FLOAT_BYTES * len(message) >= size), 1)


def over(end: float, round_: int, device: torch.device) -> bool:
    """Tells whether rank 0 says that time is over; three rounds are always made, as the first warms up."""
    told = torch.tensor([float(time.monotonic() > end and round_ > 2)], device=device)
    dist.broadcast(told, 0)
    return bool(told.item())


def train(args: argparse.Namespace, device: torch.device) -> None:
    """Goes through all sizes in rounds, so that a drift of the machine affects all of them alike."""
    model = nn.Linear(1, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    one, weight = torch.ones(1, 1, device=device), torch.ones(512, 512, device=device)
    messages = [(kind, whole(size, device)) for size in args.sizes for kind in args.kinds]
    gradients = torch.ones(max(len(message) for _, message in messages), device=device)
    end = None if args.seconds is None else time.monotonic() + args.seconds
    for round_ in range(args.repeats):
        if end is not None:
            model(one).sum().backward()  # a step of its own: steps of the table have one message each
            stop = over(end, round_, device)
            optimizer.step()
            optimizer.zero_grad()
            if stop:
                break
        for kind, message in messages:
            if end is not None and round_ % turns_of(message):
                continue
            model(one).sum().backward()
            if args.hot:
                message.copy_(gradients[: len(message)])
                weight @ weight  # all threads of the rank are awake now, and stay so for a while
            send(kind, message)
            if device.type == "cuda":
                torch.cuda.synchronize()  # the step ends after it, not after its launch
            optimizer.step()
            optimizer.zero_grad()
            message.fill_(1.0)  # sums of sums would overflow
        if RANK == 0:
            print(f"round {round_ + 1} of {args.repeats}: {len(messages)} messages", flush=True)


def main() -> None:
    """Runs one rank from start to end."""
    args = arguments()
    device = torch.device("cuda", LOCAL_RANK) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    train(args, device)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
