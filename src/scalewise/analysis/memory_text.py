"""Sentences about memory, for terminal and report: what a peak consists of, what still fits, and what grows."""

from collections.abc import Sequence
from pathlib import PurePath

from scalewise.analysis.estimate import level_text
from scalewise.analysis.memory_account import MemoryAccount
from scalewise.analysis.memory_growth import MemoryGrowth
from scalewise.units import bytes_text

MOST_LINES = 5  # of the script; the others are added up
SMALLEST_SHARE = 0.01  # of the peak, that a line must have allocated to be named


def account_lines(accounts: Sequence[MemoryAccount]) -> list[str]:
    """Sentences on each inspected arm: its peak by purpose, the lines that made most of it, and the largest batch."""
    return [line for account in accounts for line in (_parts(account), *_by_line(account), _largest_batch(account))]


def growth_lines(growths: Sequence[MemoryGrowth]) -> list[str]:
    """A sentence for each kind of memory that grows, for the rank in which it grows fastest."""
    fastest: dict[str, MemoryGrowth] = {}
    for one in growths:
        if one.kind not in fastest or one.bytes_per_step.value > fastest[one.kind].bytes_per_step.value:
            fastest[one.kind] = one
    return [_growth(one) for one in fastest.values()]


def _parts(account: MemoryAccount) -> str:
    parts = account.parts
    sizes = sorted(((size, name) for name, size in parts.parts.items() if size), reverse=True)
    shown = ", ".join(f"{name} {bytes_text(size)}" for size, name in sizes)
    peak = f"{bytes_text(parts.peak_bytes)} of tensors at the peak" if parts.peak_bytes else "peak not known"
    when = "" if parts.at_peak else " (the most of each, not of one moment)"
    return f"Memory of {account.arm}, one inspected step: {peak}: {shown}{when}."


def _by_line(account: MemoryAccount) -> list[str]:
    least = SMALLEST_SHARE * (account.parts.peak_bytes or 0)
    with_line = [row for row in account.by_line if row.file and row.bytes > least]
    if not with_line:
        return ["No line of the script made it: it was there before the step, or backward made it."]
    shown = [
        f"{bytes_text(row.bytes)} {row.purpose} {PurePath(row.file).name}:{row.line} `{row.text}`"
        for row in with_line[:MOST_LINES]
    ]
    rest = sum(row.bytes for row in with_line[MOST_LINES:])
    more = f"; other lines {bytes_text(rest)}" if rest else ""
    return [f"Made by: {'; '.join(shown)}{more}."]


def _largest_batch(account: MemoryAccount) -> str:
    if account.line is None:
        return f"Largest batch of {account.arm}: not known, because what a sample needs was not seen."
    where = "the GPU" if account.device == "cuda" else "a rank's share of the host"
    if account.capacity_bytes is None or account.largest_batch is None:
        return f"Largest batch of {account.arm}: not known, because the memory of {where} is not."
    room = f"{bytes_text(account.capacity_bytes)} of {where}"
    return (
        f"Largest batch that fits in {room}: about {account.largest_batch:,} samples in a rank's micro-batch "
        f"(predicted {account.line.how})."
    )


def _growth(one: MemoryGrowth) -> str:
    pace = one.bytes_per_step
    interval = f"{level_text(pace.level)} interval {bytes_text(pace.low)} to {bytes_text(pace.high)}"
    kind = f"{one.kind[:1].upper()}{one.kind[1:]}"
    text = f"{kind} of rank {one.rank} in {one.run} grows by {bytes_text(pace.value)} a step ({interval})"
    if one.runs_out_step is None:
        return f"{text}; how much there is, is not known."
    return (
        f"{text}: at this pace it runs out at about step {one.runs_out_step:,}, at the earliest at step "
        f"{one.runs_out_earliest_step:,}, when all {bytes_text(one.capacity_bytes or 0)} are taken."
    )
