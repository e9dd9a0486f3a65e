"""Writes numbers with their units: they are rounded here only; also counts and lists."""

from collections.abc import Sequence
from math import floor, isfinite, log10

NANO = 1e-9
THIN = "\u202f"  # separates thousands; no line is broken there
GROUPED_FROM = 10_000


def seconds_text(seconds: float) -> str:
    """A duration with three significant digits in the unit that suits it: 312 us, 5.03 ms, 1.20 s."""
    magnitude = abs(seconds)
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if magnitude >= scale * 0.9995 or unit == "us":
            return f"{three_digits(seconds / scale)} {unit}"
    raise AssertionError("unreachable: the last unit takes everything")


def bytes_text(count: float) -> str:
    """A size in binary units with three significant digits: 512 B, 16.1 MiB, 4.07 GiB."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{three_digits(value)} {unit}"
        value /= 1024
    return f"{three_digits(value)} TiB"


def three_digits(value: float) -> str:
    """The shortest text of a number that keeps its meaning: 0.03, 5.03, 31.2, 312."""
    magnitude = abs(value)
    if magnitude >= 99.95:
        return f"{value:.0f}"
    text = f"{value:.1f}" if magnitude >= 9.995 else f"{value:.2f}"
    return "0.00" if text == "-0.00" else text


def significant(value: float) -> str:
    """A number without unit, with three significant digits and zeros at its end: 0.0300, 5.03, 31.2, 312, 161 000."""
    if not isfinite(value) or value == 0:
        return _at_place(value, 0)
    place = _place(value, 3)
    # Below a hundred thousandth a power of ten is shorter than its zeros.
    return f"{value:.2e}" if place < -7 else _at_place(value, place)


def with_interval(value: float, low: float, high: float, most: int | None = None) -> tuple[str, str, str]:
    """The texts of a value and of both ends of its interval.

    Half the interval's width has two significant digits, and the value and the ends stop at the same place:
    5.03 in 4.61 to 5.45, 39 in 27 to 51, 161 000 in 146 000 to 178 000. The value has no more digits than `most`.
    """
    half = (high - low) / 2
    if not isfinite(half) or half <= 0:
        return significant(value), significant(low), significant(high)
    place = _place(half, 2)
    if most is not None and value:
        place = max(place, _place(value, most))
    return _at_place(value, place), _at_place(low, place), _at_place(high, place)


def counted(count: int, thing: str) -> str:
    """A number of things: `1 batch`, `16 batches`."""
    plural = f"{thing}es" if thing.endswith(("s", "ch", "x")) else f"{thing}s"
    return f"{count} {thing if count == 1 else plural}"


def ranks_phrase(count: int) -> str:
    """A number of ranks: `1 rank`, `2 ranks`."""
    return counted(count, "rank")


def named_ranks(ranks: Sequence[int], small: bool = False) -> str:
    """Names of ranks: `Ranks 0, 1 and 3`, `Rank 2`; `ranks ...` if `small`, for the inside of a sentence."""
    text = f"rank{'s' if len(ranks) > 1 else ''} {listed([str(rank) for rank in ranks])}"
    return text if small else text.capitalize()


def listed(words: Sequence[str]) -> str:
    """Words joined for a sentence: `a`, `a and b`, `a, b and c`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def one_sentence(*parts: str) -> str:
    """Returns the parts as one sentence with one full stop; what a script said may end with one of its own, or not."""
    return f"{'; '.join(map(without_stop, parts))}."


def without_stop(text: str) -> str:
    """Returns the text without a full stop at its end, to go on inside a sentence."""
    return text.rstrip(".")


def with_capital(text: str) -> str:
    """Returns the text with a capital at its start, to begin a sentence; its other letters stay as they are."""
    return text[:1].upper() + text[1:]


def with_small(text: str) -> str:
    """Returns the text with a small letter at its start, to stand inside a sentence."""
    return text[:1].lower() + text[1:]


def _place(value: float, digits: int) -> int:
    """The power of ten of the last of this many significant digits; 9.996 has three digits down to 0.1, as 10.0."""
    place = floor(log10(abs(value))) - digits + 1
    return place + 1 if round(abs(value) / 10.0**place) >= 10**digits else place


def _at_place(value: float, place: int) -> str:
    """The value rounded to that power of ten, with thousands set apart from 10 000 on."""
    if not isfinite(value):
        return "–" if value != value else "∞" if value > 0 else "-∞"
    text = f"{value:.{-place}f}" if place < 0 else f"{round(value / 10**place) * 10**place}"
    if abs(float(text)) >= GROUPED_FROM:
        text = f"{float(text):,.{max(-place, 0)}f}".replace(",", THIN)
    return text.removeprefix("-") if float(text.replace(THIN, "")) == 0 else text
