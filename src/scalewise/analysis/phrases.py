"""Writes a number with its interval for a sentence: `2.31 ms [2.20, 2.40]`, `85 % [80, 90]`, `2 ranks`."""

from collections.abc import Sequence

from scalewise.analysis.estimate import Estimate
from scalewise.units import bytes_text, three_digits

TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
RATE_UNITS = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"))


def seconds_phrase(found: Estimate) -> str:
    """A duration and its interval, all three in the unit that suits the middle."""
    scale, unit = next((pair for pair in TIME_UNITS if abs(found.value) >= 0.9995 * pair[0]), TIME_UNITS[-1])
    return f"{three_digits(found.value / scale)} {unit} {_interval(found, 1 / scale)}".rstrip()


def percent_phrase(found: Estimate) -> str:
    """A share and its interval, in percent."""
    return f"{three_digits(100 * found.value)} % {_interval(found, 100.0)}".rstrip()


def percent_text(share: float) -> str:
    """A share without an interval: `85 %`, `0.40 %`."""
    text = three_digits(100 * share) if abs(share) < 0.0995 else f"{100 * share:.0f}"
    return f"{text.removeprefix('-') if float(text) == 0 else text} %"


def bytes_phrase(count: float) -> str:
    """A size in binary units."""
    return bytes_text(count)


def ranks_phrase(count: int) -> str:
    """A number of ranks: `1 rank`, `2 ranks`."""
    return f"{count} rank{'' if count == 1 else 's'}"


def listed(words: Sequence[str]) -> str:
    """Words joined for a sentence: `a`, `a and b`, `a, b and c`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _interval(found: Estimate, scale: float) -> str:
    """An interval in brackets; empty if the number is exact."""
    if found.low == found.high:
        return ""
    return f"[{three_digits(found.low * scale)}, {three_digits(found.high * scale)}]"
