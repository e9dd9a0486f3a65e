"""The loop that supervises a run: reads signs of life, asks for a verdict, and ends what has to end."""

import time
from collections.abc import Callable
from pathlib import Path

from scalewise.launch.evidence import parse_stack
from scalewise.launch.fleet import Fleet, seconds_since
from scalewise.launch.processes import queued_seconds
from scalewise.launch.sampler import Sampler
from scalewise.launch.torchrun import first_rank
from scalewise.launch.verdict import Limits, RankView, Verdict, judge
from scalewise.records.folder import RunFolder
from scalewise.records.pulse import Pulse, read_pulses
from scalewise.records.spec import RunSpec

# News of an exit wakes the loop at once; the rest is read so rarely that it does not disturb the ranks.
_LOOK_SECONDS = 0.25
_LOOK_SECONDS_AFTER_FAILURE = 0.05
_TELL_SECONDS = 0.5
_STACK_SECONDS = 0.5
# A rank writes its notes ten times a second, and its rows between two steps.
_WRITE_SECONDS = 0.3


class Supervision:
    """The supervision of one run from its start to its end."""

    def __init__(self, spec: RunSpec, folder: RunFolder, fleet: Fleet, start_ns: int) -> None:
        self.stacks: dict[int, tuple[str, ...]] = {}
        self.launch_seconds: float | None = None
        self.last_views: tuple[RankView, ...] = ()
        self.seconds = 0.0
        self._folder = folder
        self._fleet = fleet
        self._start_ns = start_ns
        self._limits = Limits(spec.limit_seconds, spec.stall_seconds, enough_steps(spec))
        self._ranks = range(first_rank(spec), first_rank(spec) + spec.ranks)
        self._queued: dict[
            int, tuple[int, float]
        ] = {}  # by rank: its last sign of life, and how long it had queued then

    def watch_over(
        self, sampler: Sampler, hear: Callable[[tuple[Pulse, ...], float], None], stop: Callable[[], bool]
    ) -> Verdict | None:
        """Returns the verdict when the run is over and its processes have ended; None if the user stopped it."""
        told_seconds = 0.0
        verdict: Verdict | None = None
        while verdict is None and not stop():
            failed = any(not end.clean for end in self._fleet.exits.values())
            look_seconds = _LOOK_SECONDS_AFTER_FAILURE if failed else _LOOK_SECONDS
            self._fleet.poll(look_seconds)
            now = seconds_since(self._start_ns)
            if self.launch_seconds is None and len(self._fleet.pids) == len(self._ranks):
                self.launch_seconds = now
            verdict = Verdict("over") if self._fleet.over else judge(self._views(), now, self._limits)
            if now - told_seconds >= _TELL_SECONDS:
                told_seconds = now
                pulses = read_pulses(self._folder.pulses)
                pids = [self._fleet.pids.get(rank, 0) for rank in self._ranks]
                steps = [pulses[rank].steps if rank < len(pulses) else 0 for rank in self._ranks]
                sampler.sample(pids, steps)
                hear(pulses, now)
        self._end(verdict)
        return verdict

    def _end(self, verdict: Verdict | None) -> None:
        if verdict is not None and verdict.kind == "enough":
            time.sleep(_WRITE_SECONDS)
        elif verdict is not None and verdict.kind != "over" and self._needs_stacks(verdict):
            self._collect_stacks()
        self.last_views = self._views()
        self._fleet.end()
        self.seconds = seconds_since(self._start_ns)

    def _needs_stacks(self, verdict: Verdict) -> bool:
        """Tells whether stacks are needed; they are not if a rank failed for a reason of its own."""
        failures = [end for end in self._fleet.exits.values() if not end.clean]
        return verdict.kind != "failed" or all(end.secondary for end in failures)

    def _collect_stacks(self) -> None:
        live = [rank for rank in self._ranks if rank not in self._fleet.exits]
        sizes = {rank: _size(self._folder.stack(rank)) for rank in live}
        for rank in live:
            self._fleet.ask_for_stacks(rank)
        end = time.monotonic() + _STACK_SECONDS
        while time.monotonic() < end and any(_size(self._folder.stack(rank)) == sizes[rank] for rank in live):
            time.sleep(0.02)
        # The dump is written in pieces, and the last ones may not be there yet.
        time.sleep(0.05)
        for rank in live:
            self.stacks[rank] = parse_stack(_text_from(self._folder.stack(rank), sizes[rank]))

    def _views(self) -> tuple[RankView, ...]:
        pulses = read_pulses(self._folder.pulses)
        return tuple(self._view(rank, pulses[rank] if rank < len(pulses) else None) for rank in self._ranks)

    def _view(self, rank: int, pulse: Pulse | None) -> RankView:
        end = self._fleet.exits.get(rank)
        if pulse is None:
            pid = self._fleet.pids.get(rank, 0)
            return RankView(rank, end, pid=pid, queued_seconds=self._queued_since(rank, pid, 0))
        moved = seconds_since(self._start_ns, pulse.moved_ns) if pulse.moved_ns else None
        pid = pulse.pid or self._fleet.pids.get(rank, 0)  # a rank reports its own pid only when it has begun to train
        queued = self._queued_since(rank, pid, pulse.moved_ns)
        return RankView(rank, end, moved, pulse.state, pulse.steps, pulse.syncs, pulse.pid, queued)

    def _queued_since(self, rank: int, pid: int, moved_ns: int) -> float:
        """The time for which a rank waited for a core since it last moved: on a crowded machine, no standstill."""
        queued = queued_seconds(pid) if pid else 0.0
        last_ns, before = self._queued.get(rank, (-1, 0.0))
        if moved_ns != last_ns:
            self._queued[rank] = (moved_ns, queued)
            return 0.0
        return max(0.0, queued - before)


def enough_steps(spec: RunSpec) -> int:
    """The number of steps after which every rank's run is ended in order; 0: the script ends it.

    In a ring the last run makes its step after all others have made theirs. The others get one step more, which they
    begin only when the last has made all of its own: so every step that counts was made in turns.
    """
    waits_for_last = spec.turns is not None and spec.turns.index < spec.turns.size - 1
    return spec.enough_steps + 1 if spec.enough_steps and waits_for_last else spec.enough_steps


def memory_kills() -> int:
    """Processes that the kernel has killed for lack of memory, here or in this control group, since boot."""
    counts = [0]
    for path in ("/proc/vmstat", "/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        try:
            lines = Path(path).read_text().splitlines()
        except OSError:
            continue
        counts += [int(line.split()[1]) for line in lines if line.startswith("oom_kill ")]
    return max(counts)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _text_from(path: Path, offset: int) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            return file.read().decode(errors="replace")
    except OSError:
        return ""
