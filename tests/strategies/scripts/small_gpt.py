"""Trains a small GPT on windows of a made-up text, in one process.

python small_gpt.py --steps 12 --width 192 --layers 6

`--loss outside` leaves the cross-entropy to the loop, `--untied` gives the head weights of its own, and `--seed -1`
seeds nothing.
"""

import argparse
import os

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VOCABULARY = 256


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=8, help="windows of one step")
    parser.add_argument("--length", type=int, default=64, help="tokens of a window")
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches of one step")
    parser.add_argument("--plain", action="store_true", help="one group of parameters, and a constant rate")
    parser.add_argument("--clip", type=float, default=1.0, help="largest norm of the gradient; 0: any")
    parser.add_argument("--loss", choices=["inside", "outside"], default="inside", help="of forward")
    parser.add_argument("--untied", action="store_true", help="head and token embedding share no weight")
    parser.add_argument("--save", help="the parameters go into SAVE-PROCESS.pt")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=1337)
    return parser.parse_args()


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width)  # queries, keys and values in one matrix
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.size()
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0, is_causal=True)
        return self.out(y.transpose(1, 2).contiguous().view(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class GPT(nn.Module):
    def __init__(
        self, width: int, layers: int, heads: int, length: int, dropout: float = 0.0, tied: bool = True
    ) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
        if tied:
            self.tokens.weight = self.head.weight

    def forward(self, index: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        place = torch.arange(index.size(1), device=index.device)
        x = self.tokens(index) + self.places(place)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def text(letters: int = 20_000) -> Tensor:
    """A text in which each letter depends on the one before it, the same in every run."""
    generator = torch.Generator().manual_seed(7)
    jumps = torch.randint(1, 6, (letters,), generator=generator)
    return jumps.cumsum(0) % VOCABULARY


def windows(data: Tensor, batch: int, length: int) -> tuple[Tensor, Tensor]:
    begins = torch.randint(len(data) - length, (batch,))
    x = torch.stack([data[begin : begin + length] for begin in begins])
    y = torch.stack([data[begin + 1 : begin + 1 + length] for begin in begins])
    return x, y


def main() -> None:
    args = arguments()
    if args.seed >= 0:
        torch.manual_seed(args.seed)
    data = text().to(args.device)
    model = GPT(args.width, args.layers, args.heads, args.length, args.dropout, tied=not args.untied).to(args.device)
    print(f"{sum(one.numel() for one in model.parameters()):,} parameters")
    decayed = [one for one in model.parameters() if one.dim() >= 2]
    others = [one for one in model.parameters() if one.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    if args.plain:
        groups = [{"params": list(model.parameters())}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95))
    for step in range(args.steps):
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 if args.plain else 1e-3 * min(1.0, (step + 1) / 5)
        total = 0.0
        for _ in range(args.accumulate):
            x, y = windows(data, args.batch // args.accumulate, args.length)
            if args.loss == "inside":
                _, loss = model(x, y)
            else:
                logits, _ = model(x)
                loss = F.cross_entropy(logits.view(-1, VOCABULARY), y.view(-1))
            loss = loss / args.accumulate
            loss.backward()
            total += loss.item()
        if args.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step} loss {total:.6f}", flush=True)
    if args.save:
        torch.save(model.state_dict(), f"{args.save}-{os.getpid()}.pt")


if __name__ == "__main__":
    main()
