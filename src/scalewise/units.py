"""How a number with a unit is written for people; the only place that rounds."""

NANO = 1e-9


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
    """A number as short as it can be told: 0.03, 5.03, 31.2, 312."""
    magnitude = abs(value)
    if magnitude >= 99.95:
        return f"{value:.0f}"
    text = f"{value:.1f}" if magnitude >= 9.995 else f"{value:.2f}"
    return "0.00" if text == "-0.00" else text
