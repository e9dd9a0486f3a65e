"""The time of a step by its parts: settled windows, own time of a rank, waiting for data, and the cost of a batch."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TypeVar

from scalewise.doctor.case import Abstain, Case, RankCase, Window
from scalewise.doctor.queries.inputs import SHARDED, line_that_made, training_rows
from scalewise.doctor.queries.script_clocks import undisturbed_from
from scalewise.records.examination import DeviceWorkRow, GraphRow, LoadingRow, PlaceRow, SettingsRow
from scalewise.records.notes import (
    NOWHERE,
    BackwardNote,
    BatchNote,
    CollectiveDoneNote,
    CollectiveNote,
    ComputedNote,
    CopyNote,
    ForwardNote,
    HostReadNote,
    LoaderNote,
    Note,
    StepNote,
)
from scalewise.units import NANO, seconds_text

SomeNote = TypeVar("SomeNote", bound=Note)
LEAST_STEPS = 5
WARM_UP = 2  # windows whose times are not typical yet
MOSTLY = 0.8  # share of the windows


def gpu_settings(case: Case) -> SettingsRow:
    """Returns torch's settings as they were last set, for a run that trains on a GPU; abstains if there is none."""
    if case.run.spec.on_cpu:
        raise Abstain("examined on the CPU, where a GPU's time cannot be seen")
    rows = case.first.rows(SettingsRow)
    if not rows or not rows[-1].device:
        raise Abstain("nothing was trained on a GPU")
    return rows[-1]


def graphs(case: Case) -> tuple[GraphRow, ...]:
    """Returns what backward passes consist of; abstains if that was not seen."""
    found = case.first.rows(GraphRow)
    if not found:
        raise Abstain("no backward pass was looked into")
    if found[-1].compiled:
        raise Abstain("the model is compiled: its operations cannot be told apart")
    return found


def recorded_work(case: Case) -> DeviceWorkRow:
    """Returns what the GPU recorded in a few steps; abstains if it recorded nothing."""
    found = case.first.rows(DeviceWorkRow)
    if not found:
        raise Abstain("the GPU recorded no step: the script was too short, or has a profiler of its own")
    if not found[-1].kernels:
        raise Abstain("the GPU's records hold no kernel: CUPTI does not work here")
    return found[-1]


def settled_windows(case: Case, least: int = LEAST_STEPS) -> tuple[Window, ...]:
    """Returns the windows after the warm-up; on a GPU, without those in which the examination itself waits for it."""
    windows = case.windows(least)[WARM_UP:]
    if case.run.spec.on_cpu:
        return windows
    begin = undisturbed_from(case.first)
    begin_ns = case.first.notes[begin].at_ns if begin < len(case.first.notes) else 0
    later = tuple(window for window in windows if begin_ns and window.notes[0].at_ns >= begin_ns)
    if len(later) < least:
        raise Abstain(f"needs {least} steps after the first passes that are looked at closely, saw {len(later)}")
    return later


def loop_ns(windows: Sequence[Window]) -> float:
    """Returns the median time from the end of one step to the end of the next."""
    ends = [window.notes[-1].at_ns for window in windows]
    gaps = [later - earlier for earlier, later in pairwise(ends)]
    return median(gaps) if gaps else 0.0


def by_line(case: Case, windows: Sequence[Window], kind: type[SomeNote]) -> dict[PlaceRow, dict[int, list[SomeNote]]]:
    """Returns line -> number of the window -> its notes; notes after a step belong to the next window."""
    found: dict[PlaceRow, dict[int, list[SomeNote]]] = {}
    for window in windows:
        for note in window.all(kind):
            place = case.first.place(note)
            if place is not None:
                found.setdefault(place, {}).setdefault(window.number, []).append(note)
    return found


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


QUICK = 0.2


@dataclass(frozen=True)
class Waiting:
    """The medians over blocks of settled loop iterations, in nanoseconds."""

    loader: int  # the loader that is waited for most
    wait_ns: float
    quick_ns: float  # the wait in quick blocks: four of five are longer
    iteration_ns: float
    share: float  # share of the iteration that is spent waiting
    blocks_above: float  # share of the blocks that lie above both limits
    windows: int


def waiting(rank: RankCase, feeding: frozenset[int], block: int, least_ns: float, least_share: float) -> Waiting | None:
    """Returns how long a rank waits for its training loaders; None if there are no settled windows.

    Workers deliver batches in bursts, so windows are averaged in blocks of as many as there are workers.
    """
    pairs = [
        (later.notes[-1].at_ns - earlier.notes[-1].at_ns, later)
        for earlier, later in zip(rank.windows, rank.windows[1:], strict=False)
        if later.number >= WARM_UP and _settled(later, feeding)
    ]
    blocks = [pairs[start : start + block] for start in range(0, len(pairs) - block + 1, block)]
    waits = [sum(_wait(window, feeding) for _, window in one) / block for one in blocks]
    spans = [max(sum(span for span, _ in one) / block, 1.0) for one in blocks]
    if not blocks:
        return None
    shares = [wait / span for wait, span in zip(waits, spans, strict=True)]
    above = sum(wait > least_ns and share > least_share for wait, share in zip(waits, shares, strict=True))
    by_loader = {loader: sum(_wait(window, frozenset({loader})) for _, window in pairs) for loader in sorted(feeding)}
    return Waiting(
        loader=max(by_loader, key=lambda loader: by_loader[loader]),
        wait_ns=median(waits),
        quick_ns=quantile(waits, QUICK),
        iteration_ns=median(spans),
        share=median(shares),
        blocks_above=above / len(blocks),
        windows=len(blocks) * block,
    )


def _settled(window: Window, feeding: frozenset[int]) -> bool:
    """Returns True if the window has no beginning of an epoch, when workers are started, and no evaluation."""
    return not any(
        isinstance(note, LoaderNote)
        or (isinstance(note, ForwardNote) and not note.trains)
        or (isinstance(note, BatchNote) and note.loader not in feeding)
        for note in window.notes
    )


def _wait(window: Window, feeding: frozenset[int]) -> int:
    return sum(note.wait_ns for note in window.batches if note.loader in feeding)


@dataclass(frozen=True)
class BatchCost:
    """The time that making one batch takes on average."""

    batches: int
    workers: int  # processes that make batches; 0: the rank itself
    decode_ns: float
    collate_ns: float
    pin_ns: float

    def text(self) -> str:
        """Returns text such as `decode 6.1 ms, collate 0.2 ms`; pinning is named only if there is any."""
        parts = [("decode", self.decode_ns), ("collate", self.collate_ns)]
        parts += [("pin", self.pin_ns)] if self.pin_ns else []
        return ", ".join(f"{name} {seconds_text(value * NANO)}" for name, value in parts)

    def by_whom(self) -> str:
        """Returns the end of a sentence that says which processes make the batches."""
        if not self.workers:
            return ", in the training process itself"
        return f", in each of {self.workers} workers" if self.workers > 1 else ", in the one worker"


def loading_of(rank: RankCase, loader: int) -> BatchCost | None:
    """Returns the cost over all workers of a loader, by each worker's highest count; None if nothing was measured."""
    longest: dict[int, LoadingRow] = {}
    for row in rank.loading:
        if row.loader == loader and row.batches >= longest.get(row.worker, row).batches:
            longest[row.worker] = row
    batches = sum(row.batches for row in longest.values())
    if not batches:
        return None
    return BatchCost(
        batches=batches,
        workers=sum(worker != NOWHERE for worker in longest),
        decode_ns=sum(row.decode_ns for row in longest.values()) / batches,
        collate_ns=sum(row.collate_ns for row in longest.values()) / batches,
        pin_ns=sum(row.pin_ns for row in longest.values()) / batches,
    )


def loading_lines(case: Case) -> Iterator[str]:
    """Yields a sentence for each loader that feeds training on rank 0, and one on how its batches are copied."""
    told = False
    for row in training_rows(case.first) if case.ranks else ():
        found, place = loading_of(case.first, row.index), line_that_made(case, row)
        if found is not None:
            told = True
            where = f" (line {place.line})" if place is not None else ""
            yield f"Making one batch of the training data{where} takes {found.text()}{found.by_whom()}."
    if told:
        yield f"{copying(case)}."


def copying(case: Case) -> str:
    """Returns a sentence on the time to copy a step's batches to the GPU on rank 0, by GPU records or by the host."""
    rank = case.first
    if case.run.spec.on_cpu:
        return "Copying the batch to the GPU was not measured: a CPU stands in for it"
    devices = rank.record.model.devices if rank.record.model is not None else ()
    if not devices:
        return "Whether the batch is copied to a GPU was not seen"
    if not any("cuda" in device for device in devices):
        return "No copy: the batch stays on the CPU"
    try:
        windows = [window for window in settled_windows(case) if window.batches]
    except Abstain as reason:
        return f"Copying the batch to the GPU was not measured: {reason}"
    fresh = [[note for note in window.all(CopyNote) if not note.again] for window in windows]
    if not any(fresh):
        return "No copy of the batch to the GPU was seen in the steps that were looked at"
    host = seconds_text(median(sum(note.duration_ns for note in notes) for notes in fresh) * NANO)
    work = rank.rows(DeviceWorkRow)
    on_gpu = sum(ns for name, (_, ns) in work[-1].copies.items() if "HtoD" in name) / work[-1].steps if work else 0.0
    told = f"Copying to the GPU takes {host} of a step on the host"
    return f"{told}, {seconds_text(on_gpu * NANO)} by the GPU's records" if on_gpu else told
