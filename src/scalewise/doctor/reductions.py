"""Measures what the script itself sends between ranks in a window, without DDP: gradients, or whole models."""

from collections.abc import Sequence

from scalewise.doctor.windows import Window
from scalewise.records.collectives import collective_kind
from scalewise.records.notes import CollectiveNote

SMALL_SHARE = 0.05  # share of the parameters' bytes: losses and counts are far below it, compressed gradients above
LARGE_SHARE = 0.5  # share of the parameters' bytes in models that are averaged: in half precision, half of the bytes


def sent_bytes(collectives: Sequence[CollectiveNote]) -> int:
    """Returns the bytes that one rank sends in collectives that can make the ranks agree."""
    return sum(note.size_bytes for note in collectives if collective_kind(note.operation).unites)


def reduces_by_hand(window: Window, parameter_bytes: int) -> bool:
    """Returns True if enough is sent in this window to hold its gradients, possibly compressed."""
    return sent_bytes(window.collectives) >= max(1, SMALL_SHARE * parameter_bytes)


def averages_by_hand(windows: Sequence[Window], parameter_bytes: int) -> bool:
    """Returns True if some window sends at least half as many bytes as the parameters have."""
    return any(sent_bytes(window.collectives) >= max(1, LARGE_SHARE * parameter_bytes) for window in windows)


def averages_models(windows: Sequence[Window], parameter_bytes: int) -> bool:
    """Returns True if whole models are sent between a step and the next forward pass.

    Such ranks differ in between on purpose. What is sent before the first forward pass only makes them equal once.
    """
    return any(sent_bytes(_before_forward(window)) >= max(1, LARGE_SHARE * parameter_bytes) for window in windows[1:])


def _before_forward(window: Window) -> list[CollectiveNote]:
    until = window.notes.index(window.forwards[0]) if window.forwards else len(window.notes)
    return [note for note in window.notes[:until] if isinstance(note, CollectiveNote)]
