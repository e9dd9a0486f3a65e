"""Reads what an examined run noted of its GPU: which one, torch's settings, and the undisturbed windows."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import TypeVar

from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.timed_regions import undisturbed_from
from scalewise.doctor.windows import Window
from scalewise.records.examination import DeviceWorkRow, GraphRow, PlaceRow, SettingsRow
from scalewise.records.notes import Note

SomeNote = TypeVar("SomeNote", bound=Note)
LEAST_STEPS = 5
WARM_UP = 2
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
