"""Separates the part of a window that a rank spends on its own work from its waiting for others."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scalewise.doctor.case import RankCase
from scalewise.doctor.inputs import SHARDED
from scalewise.doctor.windows import Window
from scalewise.records.notes import (
    NOWHERE,
    BackwardNote,
    BatchNote,
    CollectiveDoneNote,
    CollectiveNote,
    ComputedNote,
    ForwardNote,
    HostReadNote,
    Note,
    StepNote,
)

PHASES = ("data", "forward", "backward", "host")


@dataclass(frozen=True)
class OwnTime:
    """The times of one window of one rank, in nanoseconds; its parts and the waiting add up to its span."""

    number: int
    span: int  # time from the end of the previous step to the end of this one
    data: int
    forward: int
    backward: int  # backward passes that wait for no other rank; of others, the part until all gradients were computed
    host: int  # everything else: the optimizer, the script's own lines
    waited: int  # waiting for other ranks, in passes and calls, or for a device

    @property
    def own(self) -> int:
        """All time except the waiting."""
        return self.data + self.forward + self.backward + self.host


def own_times(rank: RankCase) -> tuple[OwnTime, ...]:
    """Returns the times of every window after the first that can be separated into its parts.

    FSDP calls its collectives from Python. If they are noted, only they count as waiting; if not (a GPU's backward pass
    runs
    in a thread of its own), the whole pass does.
    """
    waits_forward, waits_backward = _waiting_wrappers(rank)
    pairs = zip(rank.windows, rank.windows[1:], strict=False)
    found = (_own_time(one, two, waits_forward, waits_backward) for one, two in pairs)
    return tuple(one for one in found if one is not None)


def _waiting_wrappers(rank: RankCase) -> tuple[frozenset[int], frozenset[int]]:
    """Returns the wrappers whose forward waits for other ranks (gathers, buffers), and those whose backward does."""
    noted = any(isinstance(note, CollectiveNote) for window in rank.windows for note in window.notes)
    on_host = {row.index for row in rank.wrappers if noted and row.device.startswith("cpu")}
    sharded = {row.index for row in rank.wrappers if row.wrapper in SHARDED} - on_host
    replicated = {row.index for row in rank.wrappers if row.wrapper == "DistributedDataParallel"}
    sent = {row.index for row in rank.wrappers if row.buffer_bytes and row.options.get("broadcast_buffers", True)}
    return frozenset(sharded | (replicated & sent)), frozenset(sharded | replicated)


def _own_time(
    before: Window, window: Window, waits_forward: frozenset[int], waits_backward: frozenset[int]
) -> OwnTime | None:
    if any(note.closure for note in window.backwards):
        return None  # the step's time includes its backward passes
    span = window.notes[-1].at_ns - before.notes[-1].at_ns
    sums = dict.fromkeys(("data", "forward", "backward", "waited"), 0)
    synchronises, computed = False, 0
    for note, duration in _apart(window):
        if isinstance(note, BatchNote):
            sums["data"] += duration
        elif isinstance(note, ForwardNote):
            sums["waited" if note.wrapper in waits_forward else "forward"] += duration
            synchronises = note.wrapper in waits_backward and note.sync if note.wrapper != NOWHERE else synchronises
        elif isinstance(note, ComputedNote):
            computed = duration
        elif isinstance(note, BackwardNote):
            own = min(computed, duration) if synchronises else duration
            sums["backward"], sums["waited"] = sums["backward"] + own, sums["waited"] + duration - own
            computed = 0
        elif isinstance(note, CollectiveDoneNote | HostReadNote):
            sums["waited"] += duration
    return OwnTime(window.number, span, host=span - sum(sums.values()), **sums)


def _apart(window: Window) -> Iterator[tuple[Note, int]]:
    """Yields notes with their exclusive time: a collective inside a forward pass is not counted as the pass's time."""
    inner: list[tuple[int, int]] = []  # time of return, duration
    for note in window.notes:
        duration = _duration(note)
        if duration is None:
            continue
        if isinstance(note, ComputedNote):
            yield note, duration
        elif isinstance(note, ForwardNote | BackwardNote | StepNote):
            began = note.at_ns - duration
            inside = sum(length for at_ns, length in inner if at_ns > began)
            inner = [one for one in inner if one[0] <= began]
            yield note, max(duration - inside, 0)
        else:
            inner.append((note.at_ns, duration))
            yield note, duration


def _duration(note: Note) -> int | None:
    if isinstance(note, ForwardNote | BackwardNote | ComputedNote | CollectiveDoneNote | StepNote):
        return note.duration_ns
    return note.wait_ns if isinstance(note, BatchNote | HostReadNote) else None


def longest_pause_at(window: Window, before: Window) -> int:
    """Returns the place of the note that follows the longest time without notes."""
    notes = (before.notes[-1], *window.notes)
    pauses = [
        (later.at_ns - (_duration(later) or 0) - earlier.at_ns, later.place)
        for earlier, later in itertools.pairwise(notes)
    ]
    return max(pauses, default=(0, NOWHERE))[1]


def quantile(values: Sequence[float], level: float) -> float:
    """Returns the value below which this share of the values lies, interpolated; the level 0.5 gives the median."""
    ordered = sorted(values)
    place = level * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
