"""What the script itself sends between ranks in a window, where DDP does not: gradients, or whole models."""

from collections.abc import Sequence

from scalewise.doctor.windows import Window
from scalewise.records.notes import CollectiveNote

SUMMING = ("all_reduce", "reduce", "reduce_scatter", "all_gather", "gather", "broadcast", "all_to_all", "scatter")
SMALL_SHARE = 0.05  # of the parameters: losses and counts are far below it, compressed gradients above
LARGE_SHARE = 0.5  # models that are averaged now and then: half precision is half of the bytes


def sent_bytes(collectives: Sequence[CollectiveNote]) -> int:
    """Bytes of one rank in collectives that can make the ranks agree."""
    return sum(note.size_bytes for note in collectives if note.operation.startswith(SUMMING))


def reduces_by_hand(window: Window, parameter_bytes: int) -> bool:
    """Whether enough is sent in this window to hold its gradients, compressed perhaps."""
    return sent_bytes(window.collectives) >= max(1, SMALL_SHARE * parameter_bytes)


def averages_by_hand(windows: Sequence[Window], parameter_bytes: int) -> bool:
    """Whether as much as the whole model is sent in some window."""
    return any(sent_bytes(window.collectives) >= max(1, LARGE_SHARE * parameter_bytes) for window in windows)


def averages_models(windows: Sequence[Window], parameter_bytes: int) -> bool:
    """Whether whole models are sent between a step and the next forward pass: ranks that differ in between mean to.

    What is sent before the first forward pass of all only makes the ranks equal once.
    """
    return any(sent_bytes(_before_forward(window)) >= max(1, LARGE_SHARE * parameter_bytes) for window in windows[1:])


def _before_forward(window: Window) -> list[CollectiveNote]:
    until = window.notes.index(window.forwards[0]) if window.forwards else len(window.notes)
    return [note for note in window.notes[:until] if isinstance(note, CollectiveNote)]
