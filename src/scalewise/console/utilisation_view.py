"""Shows how well arms use their devices: work, rates and shares in a table, time by kernel family below it."""

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from scalewise.analysis.utilisation import Share, Utilisation
from scalewise.console.output import printable
from scalewise.units import three_digits

NONE = "-"
LEAST_SHARE = 0.01  # of the step; smaller families are added up


def use_table(rows: Sequence[Utilisation]) -> Table:
    """A table with one row per arm."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("use of the device", no_wrap=True)
    for head in ("flop/step", "flop/s", "peak", "MFU", "busy", "bandw.", "launches"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        rates = (row.flops_per_step, row.achieved_flops_per_second, row.peak_flops_per_second)
        shares = (share_text(row.mfu), share_text(row.busy), share_text(row.bandwidth, ">"))
        launches = NONE if row.launches is None else f"{row.launches}"
        table.add_row(Text(printable(row.arm)), *map(flops_text, rates), *shares, launches)
    return table


def use_lines(rows: Sequence[Utilisation]) -> list[str]:
    """Lines on the kernel families of each arm, on what the columns mean, and on why a share is not given."""
    lines = [_families(row) for row in rows if row.families]
    lines += _refusals(rows)
    precise = dict.fromkeys(_precisions(row) for row in rows if row.flops_by_precision)
    lines.append(
        "flop/step: floating-point operations of a rank's step, counted"
        f"{f' ({next(iter(precise))})' if len(precise) == 1 else ''}; peak: measured here for that precision; "
        "MFU: the one over the other; bandw.: at least this share of the measured copy rate."
    )
    again = [row for row in rows if row.recomputed_flops and row.flops_per_step]
    for row in again:
        more = 100 * row.recomputed_flops / (row.flops_per_step or 1)
        lines.append(f"{row.arm}: recomputation adds {more:.0f} % operations, which are not in MFU.")
    if any(row.flops_by == "profile" for row in rows):
        lines.append("Operations were counted from the profile, in which recomputation cannot be told apart.")
    return lines


def flops_text(value: float | None) -> str:
    """A number of operations with three digits: 12.3 G, 1.20 T."""
    if value is None:
        return NONE
    for scale, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= scale * 0.9995 or unit == "M":
            return f"{three_digits(value / scale)} {unit}"
    raise AssertionError("unreachable: the last unit takes everything")


def share_text(share: Share, sign: str = "") -> str:
    """A share in percent."""
    if share.value is None:
        return NONE
    text = f"{100 * share.value:.0f}" if share.value >= 0.0995 else f"{100 * share.value:.1f}"
    return f"{sign}{text} %"


def _families(row: Utilisation) -> str:
    large = [one for one in row.families if one.share >= LEAST_SHARE]
    words = [f"{one.family} {100 * one.share:.0f} %" for one in large]
    rest = sum(one.share for one in row.families if one.share < LEAST_SHARE)
    words += [f"less than 1 % each {100 * rest:.0f} %"] if rest >= 0.005 else []
    names = [name for name, seconds in (row.other or {}).items() if seconds][:3]
    if names and any(one.family == "other" for one in large):
        words.append(f"other is mostly {', '.join(name[:40] for name in names)}")
    if row.families_of == "kernels":
        idle = max(0.0, 1 - sum(one.share for one in row.families))
        words.append(f"no kernel {100 * idle:.0f} %")
    return f"{row.arm}, time of one profiled step by {row.families_of}: {', '.join(words)}."


def _refusals(rows: Sequence[Utilisation]) -> list[str]:
    """Each reason for a missing value once, with all the values that it explains."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for name, share in (("MFU", row.mfu), ("busy", row.busy), ("bandw.", row.bandwidth)):
            if share.value is None and share.reason:
                found.setdefault(share.reason, []).append(f"{name} of {row.arm}")
        if row.no_profile:
            found.setdefault(row.no_profile, []).append(f"families of {row.arm}")
    return [f"No {', '.join(what)}: {reason}." for reason, what in found.items()]


def _precisions(row: Utilisation) -> str:
    total = sum((row.flops_by_precision or {}).values())
    parts = sorted((row.flops_by_precision or {}).items(), key=lambda item: -item[1])
    if len(parts) == 1:
        return parts[0][0]
    return ", ".join(f"{name} {100 * flops / total:.1f} %" for name, flops in parts)
