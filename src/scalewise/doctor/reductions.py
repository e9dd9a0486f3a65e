"""What the script itself sends between ranks in a window, where DDP does not: gradients, or whole models."""

from scalewise.doctor.windows import Window

SUMMING = ("all_reduce", "reduce", "reduce_scatter", "all_gather", "gather", "broadcast", "all_to_all", "scatter")
SMALL_SHARE = 0.05  # of the parameters: losses and counts are far below it, compressed gradients above
LARGE_SHARE = 0.5  # models that are averaged now and then: half precision is half of the bytes


def sent_bytes(window: Window) -> int:
    """Bytes of one rank in collectives that can make the ranks agree."""
    return sum(note.size_bytes for note in window.collectives if note.operation.startswith(SUMMING))


def reduces_by_hand(window: Window, parameter_bytes: int) -> bool:
    """Whether enough is sent in this window to hold its gradients, compressed perhaps."""
    return sent_bytes(window) >= max(1, SMALL_SHARE * parameter_bytes)


def averages_by_hand(windows: tuple[Window, ...], parameter_bytes: int) -> bool:
    """Whether whole models are sent in some window: ranks that meet now and then (local SGD) differ in between."""
    return any(sent_bytes(window) >= max(1, LARGE_SHARE * parameter_bytes) for window in windows)
