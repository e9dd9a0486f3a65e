"""A small transformer that learns random tokens with AdamW under torchrun, by DDP or sharded by FSDP2."""

import argparse
import contextlib
import os
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

RANKS = int(os.environ.get("WORLD_SIZE", "1"))
TOKENS = 1000


class Transformer(nn.Module):
    """An embedding, encoder layers and a linear head."""

    def __init__(self, dim: int, layers: int, sequence: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, dim)
        self.place = nn.Parameter(torch.zeros(sequence, dim))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, 4, 4 * dim, dropout=0.0, batch_first=True) for _ in range(layers)
        )
        self.head = nn.Linear(dim, TOKENS)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of every next token."""
        x = self.embedding(tokens) + self.place
        for layer in self.layers:
            x = layer(x)
        return self.head(x)  # type: ignore[no-any-return]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--sequence", type=int, default=64)
    parser.add_argument("--batch", type=int, default=8, help="global")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--sync", choices=["last", "every"], default="last")
    parser.add_argument("--amp", choices=["none", "bfloat16"], default="none")
    parser.add_argument("--bucket-mb", type=float, default=25.0)
    parser.add_argument("--wrap", choices=["ddp", "fsdp"], default="ddp")
    parser.add_argument("--track", action="store_true", help="print the peak that torch's own tracker counts for FSDP")
    return parser.parse_args()


def wrapped(model: Transformer, args: argparse.Namespace) -> nn.Module:
    """As asked for."""
    if args.wrap == "ddp":
        return DistributedDataParallel(model, bucket_cap_mb=args.bucket_mb)
    for layer in model.layers:
        fully_shard(layer, mesh=dist.device_mesh.init_device_mesh("cpu", (RANKS,)))
    return fully_shard(model, mesh=dist.device_mesh.init_device_mesh("cpu", (RANKS,)))


def main() -> None:
    """One rank from start to end."""
    args = arguments()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = wrapped(Transformer(args.dim, args.layers, args.sequence), args)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    micro = args.batch // (RANKS * args.accumulate)
    tokens = torch.randint(TOKENS, (micro, args.sequence))
    tracker = FSDPMemTracker(model, optimizer) if args.track else None
    if tracker is not None:
        tracker.track_inputs((tokens,))
    with tracker or contextlib.nullcontext():
        train(model, optimizer, tokens, args, tracker)
    if tracker is not None:
        (peak,) = tracker.get_tracker_snapshot("peak").values()
        print(f"peak {peak['Total']}", flush=True)
    dist.destroy_process_group()


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, tokens: Tensor, args: argparse.Namespace, tracker: Any
) -> None:
    """All steps; the tracker wants to be told where one ends."""
    for _ in range(args.steps):
        for index in range(args.accumulate):
            communicate = args.sync == "every" or index == args.accumulate - 1
            apart = not communicate and isinstance(model, DistributedDataParallel)
            with model.no_sync() if apart else contextlib.nullcontext():  # type: ignore[operator]
                with torch.autocast("cpu", torch.bfloat16, enabled=args.amp == "bfloat16"):
                    scores = model(tokens).flatten(0, 1)
                    loss = nn.functional.cross_entropy(scores, tokens.flatten()) / args.accumulate
                loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if tracker is not None:
            tracker.reset_mod_stats()


if __name__ == "__main__":
    main()
