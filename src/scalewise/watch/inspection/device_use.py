"""Measures how an inspected step uses its device: its work, its time by kernel family, and plain steps' CPU time."""

import functools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from scalewise.records.folder import RunFolder
from scalewise.records.inspection import CpuTimeRow, ProfileRow, WorkRow
from scalewise.watch.operation_counts import StepCounts, WorkMode
from scalewise.watch.recorder import Recorder
from scalewise.watch.step_profile import (
    THE_SCRIPT_PROFILES,
    Profile,
    StepProfiler,
    in_order,
    now_ns,
    when_the_script_profiles,
)

COUNTED_STEP = 3  # the close look at memory is over, and one more step is left for the timeline alone
PREPARED_STEP = 4
PROFILED_STEP = 5
QUIET_STEPS = range(5, 8)  # nothing else is looked at: they can be shown in a trace
PLAIN_STEPS = range(6, 38)  # their CPU time is read
MOST_CALLS = 40_000  # in the file for a trace


class DeviceUse:
    """A measurement of the device's use; the recorder itself calls it for each step, with compiled models, too."""

    def __init__(self, recorder: Recorder, folder: RunFolder) -> None:
        self._recorder, self._folder = recorder, folder
        self._work = StepCounts(lambda: self._counting and recorder.open, lambda: bool(recorder.backward_depth))
        self._mode: Any = None
        self._counting = False
        self._count_refused = ""
        self._profiler: StepProfiler | None = None
        self._profiling = False
        self._profiled: StepProfiler | None = None  # its step has ended, and it is still to be read
        self._profile_refused = ""
        self._ends = self._ends_before = 0  # optimizer steps that ended in this step, and in the one before
        self._plain_began: tuple[int, int] | None = None
        self._plain_last = (0, 0)
        self._plain = [0, 0, 0]  # steps, wall ns, CPU ns
        self._own_plain = [0, 0]

    def install(self) -> None:
        """Wraps the two functions that open and end a step; only this recorder's, as timed runs must not pay for it."""
        recorder: Any = self._recorder
        open_step, optimizer_end = recorder.open_step, recorder.optimizer_end

        @functools.wraps(open_step)
        def opened() -> None:
            self._guarded(self._before_opening)
            open_step()
            self._guarded(self._opened)

        @functools.wraps(optimizer_end)
        def ended(optimizer: int) -> None:
            optimizer_end(optimizer)
            if not recorder.optimizer_depth:
                self._guarded(self._ended)

        recorder.open_step, recorder.optimizer_end = opened, ended
        when_the_script_profiles(recorder, lambda: self._guarded(self._step_aside))

    # ---- what the inspector tells

    def count(self, step: int) -> None:
        """Begins to count at the first forward of the step, when no other mode of ours is on."""
        if step == COUNTED_STEP and not self._count_refused:
            if _get_current_dispatch_mode() is not None:
                self.refuse_count("the script has a dispatch mode of its own")
                return
            self._work.begin()
            mode: Any = WorkMode(self._work)
            mode.__enter__()
            self._mode, self._counting = mode, True

    def refuse_count(self, why: str) -> None:
        """Notes that operators cannot be counted by a dispatch mode; the profile may still give their work."""
        self._count_refused = self._count_refused or why
        self._leave_mode()

    @contextmanager
    def ours(self) -> Iterator[None]:
        """A context for work of the inspection itself, which is left out of what is measured."""
        counting, self._counting = self._counting, False
        began_ns, began_cpu_ns = now_ns(), time.process_time_ns()
        try:
            yield
        finally:
            self._counting = counting
            self._own_plain[0] += now_ns() - began_ns
            self._own_plain[1] += time.process_time_ns() - began_cpu_ns

    def finish(self) -> None:
        """Writes the remaining rows at the end of the script."""
        self._before_opening()
        if self._profiled is not None:
            self._write_profile(self._profiled)
        journal, steps = self._recorder.journal, self._recorder.step + 1
        if self._count_refused:
            journal.row(WorkRow(COUNTED_STEP, "dispatch", missing=self._count_refused))
        elif steps <= COUNTED_STEP:
            journal.row(WorkRow(COUNTED_STEP, "dispatch", missing=_too_few(steps, COUNTED_STEP)))
        if not self._profile_refused and steps <= PROFILED_STEP:
            self._profile_refused = _too_few(steps, PROFILED_STEP)
        if self._profile_refused:
            journal.row(ProfileRow(PROFILED_STEP, "", missing=self._profile_refused))
        if self._plain[0]:
            journal.row(CpuTimeRow(self._plain[0], self._plain[1], self._plain[2], torch.get_num_threads()))

    # ---- what the recorder tells

    def _before_opening(self) -> None:
        """Writes between two steps what the last one has shown."""
        self._ends_before, self._ends = self._ends, 0
        if self._counting:
            self._write_work()
        if self._profiling:
            self._end_profile()
        if self._profiled is not None and self._recorder.step >= QUIET_STEPS[-1]:
            self._write_profile(self._profiled)  # it takes a while, so not between the steps that a trace shows
        if self._plain_began is not None:
            for place, length in enumerate((1, *self._plain_last)):
                self._plain[place] += length
            self._plain_began = None

    def _opened(self) -> None:
        step = self._recorder.step
        # If no module call was seen, the step was opened late, by its backward pass.
        late = bool(self._recorder.backward_depth or self._recorder.optimizer_depth)
        if step == COUNTED_STEP and late:
            self.refuse_count("no module call was seen at the beginning of the step, so its forward pass is missing")
        if step == PREPARED_STEP and not self._profile_refused:
            self._profiler = StepProfiler()
            self._attempt(self._profiler.prepare)
        elif step == PROFILED_STEP and self._profiler is not None and not self._profile_refused:
            if late:
                self._profile_refused = "no module call was seen at the beginning of the step"
            elif self._attempt(self._profiler.begin):
                self._profiling = True
        elif step in PLAIN_STEPS and self._recorder.clock is None and not late:
            self._own_plain = [0, 0]
            self._plain_began = (now_ns(), time.process_time_ns())

    def _ended(self) -> None:
        self._ends += 1
        if self._plain_began is not None:
            wall, cpu = now_ns() - self._plain_began[0], time.process_time_ns() - self._plain_began[1]
            self._plain_last = (wall - self._own_plain[0], cpu - self._own_plain[1])
        if self._profiling and self._profiler is not None:
            self._profiler.step_ended()
            if self._ends >= self._ends_before:
                self._end_profile()  # evaluation may follow, and need not be profiled

    def _step_aside(self) -> None:
        """Ends profiling, as the script is about to make a profiler; what was profiled before stays."""
        if self._profiling and self._profiler is not None:
            self._attempt(self._profiler.end)
        if self._profiling or self._recorder.step < PROFILED_STEP:
            self._profile_refused = THE_SCRIPT_PROFILES
        self._profiler, self._profiling = None, False

    def _write_work(self) -> None:
        self._counting = False
        self._leave_mode()
        work = self._work
        if work.error is not None:
            self._count_refused = f"{type(work.error).__name__}: {work.error}"[:200]
            return
        self._recorder.journal.row(
            WorkRow(
                step=COUNTED_STEP,
                method="dispatch",
                flops=dict(work.flops),
                recomputed=dict(work.recomputed),
                operand_bytes=work.operand_bytes,
                streamed_bytes=None if work.cache_bytes is None else work.streamed_bytes,
                cache_bytes=work.cache_bytes,
            )
        )

    def _end_profile(self) -> None:
        profiler, self._profiler, self._profiling = self._profiler, None, False
        if profiler is None or not self._attempt(profiler.end):
            return
        if profiler.end_ns > profiler.begin_ns:
            self._profiled = profiler
        else:
            self._profile_refused = "the profiled step did not end"

    def _write_profile(self, profiler: StepProfiler) -> None:
        self._profiled = None
        found = profiler.read()
        row = ProfileRow(
            PROFILED_STEP,
            found.device,
            found.wall_ns,
            found.busy_ns,
            found.launches,
            in_order(found.families),
            found.other,
            found.uncounted,
        )
        self._recorder.journal.row(row)
        unknown = ", ".join(sorted(found.shapeless))
        missing = f"the flops of {unknown} cannot be told from the shapes in the profile" if unknown else ""
        self._recorder.journal.row(WorkRow(PROFILED_STEP, "profile", flops=found.flops, missing=missing))
        self._write_calls(found)

    def _write_calls(self, found: Profile) -> None:
        """Writes calls for a trace: kernels and collectives first, then operators, outermost and longest first."""
        ranked = sorted(found.calls, key=lambda one: (one.track.startswith("operators"), one.begin_ns - one.end_ns))
        names: dict[str, int] = {}
        tracks: dict[str, int] = {}
        calls = [
            [
                names.setdefault(one.name, len(names)),
                tracks.setdefault(one.track, len(tracks)),
                one.begin_ns,
                one.end_ns,
                one.size_bytes,
            ]
            for one in ranked[:MOST_CALLS]
        ]
        kept = {"step": PROFILED_STEP, "names": list(names), "tracks": list(tracks), "calls": calls}
        left_out = max(0, len(ranked) - MOST_CALLS)
        text = json.dumps({**kept, "left_out": left_out}, separators=(",", ":"))
        self._folder.calls(self._recorder.rank).write_text(text, encoding="utf-8")

    def _leave_mode(self) -> None:
        mode: Any = self._mode
        on_top: Any = _get_current_dispatch_mode()
        if mode is not None and mode is on_top:
            self._mode = None
            mode.__exit__(None, None, None)

    def _attempt(self, act: Callable[[], None]) -> bool:
        try:
            act()
        except Exception as error:
            self._profile_refused = f"the profiler did not work: {error}"[:200]
            return False
        return True

    def _guarded(self, act: Callable[[], None]) -> None:
        if self._recorder.on:
            try:
                act()
            except Exception as error:
                self._counting = self._profiling = False
                self._recorder.broke("inspection of the device's use", error)


def _too_few(steps: int, needed: int) -> str:
    return f"the script made {steps} step{'' if steps == 1 else 's'}, and this is looked at in step {needed + 1}"
