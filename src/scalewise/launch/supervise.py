"""Makes one run: starts it, reads signs of life beside it, asks for a verdict, ends what has to end, and concludes."""

import time
from collections.abc import Callable
from dataclasses import replace

from scalewise.launch.ending import Ending, outcome_of
from scalewise.launch.failure_logs import gather
from scalewise.launch.launcher import HostLost, HostOutOfMemory, Launcher, LaunchFailed, RankProcesses
from scalewise.launch.verdict import Limits, RankView, Verdict, judge
from scalewise.records.folder import RunFolder
from scalewise.records.outcome import Outcome, OutcomeKind, World
from scalewise.records.pulse import Pulse
from scalewise.records.spec import RunSpec

Hear = Callable[[tuple[Pulse, ...], float], None]

# News of an exit wakes the loop at once; the rest is looked at so rarely that it does not disturb the ranks.
_LOOK_SECONDS = 0.25
_LOOK_SECONDS_AFTER_FAILURE = 0.05
_TELL_SECONDS = 0.5
# A rank writes what it has noted ten times a second, and its rows between two steps.
_WRITE_SECONDS = 0.3


def run_one(spec: RunSpec, folder: RunFolder, launcher: Launcher, hear: Hear, stop: Callable[[], bool]) -> Outcome:
    """Makes one run; whatever happens in it becomes an outcome, and none of its processes is left running."""
    began = time.monotonic()
    try:
        ranks = launcher.start(spec, folder)
    except LaunchFailed as problem:
        return with_world(_not_started(problem, time.monotonic() - began), problem.world, spec)
    try:
        outcome = _supervised(spec, folder, ranks, hear, stop)
    except LaunchFailed as problem:
        outcome = _not_started(problem, ranks.seconds_before + ranks.seconds)
    finally:
        seen = ranks.close()
    return with_world(_with_hosts(outcome, ranks.hosts, spec), seen, spec)


def _supervised(
    spec: RunSpec, folder: RunFolder, ranks: RankProcesses, hear: Hear, stop: Callable[[], bool]
) -> Outcome:
    """Stays until the ranks are gone, and concludes."""
    supervision = Supervision(spec, ranks)
    verdict = supervision.watch_over(hear, stop)
    sentence, hint = ranks.start_problem() if verdict is not None else ("", "")
    if sentence:
        return _not_started(LaunchFailed(sentence, hint), ranks.seconds_before + ranks.seconds)
    ending = Ending(
        verdict=verdict,
        launch_seconds=ranks.seconds_before + (supervision.launch_seconds or supervision.seconds),
        wall_seconds=ranks.seconds_before + ranks.seconds,
        stall_seconds=spec.stall_seconds,
        limit_seconds=spec.limit_seconds,
        memory_kills=ranks.memory_kills,
        rehearse=spec.rehearsed,
        without_hooks=spec.without_hooks,
    )
    found = [gather(view, folder, supervision.stacks.get(view.rank, ())) for view in supervision.last_views]
    return outcome_of(found, ending, tuple(sorted(path.name for path in folder.path.glob("*.log"))))


def _with_hosts(outcome: Outcome, hosts: tuple[str, ...], spec: RunSpec) -> Outcome:
    """The outcome with the names of its hosts; of several, its sentence names the one with the first failed rank."""
    rank, sentence = outcome.first_failed_rank, outcome.sentence
    if rank is not None and len(hosts) > 1 and rank // spec.ranks < len(hosts):
        sentence = f"{sentence}; rank {rank} was on {hosts[rank // spec.ranks]}"
    return replace(outcome, hosts=hosts, sentence=sentence)


def _not_started(problem: LaunchFailed, wall_seconds: float) -> Outcome:
    """The outcome of a run that never came to its ranks, or lost them."""
    kind: OutcomeKind = "not_started"
    if isinstance(problem, HostLost):
        kind = "interrupted"
    elif isinstance(problem, HostOutOfMemory):
        kind = "out_of_memory"
    return Outcome(kind, problem.sentence, problem.hint, None, (), wall_seconds, wall_seconds, ())


class Supervision:
    """The supervision of one run from its start to its end."""

    def __init__(self, spec: RunSpec, ranks: RankProcesses) -> None:
        self.stacks: dict[int, tuple[str, ...]] = {}
        self.launch_seconds: float | None = None
        self.last_views: tuple[RankView, ...] = ()
        self.seconds = 0.0
        self._ranks = ranks
        self._limits = Limits(spec.limit_seconds, spec.stall_seconds, enough_steps(spec))

    def watch_over(self, hear: Hear, stop: Callable[[], bool]) -> Verdict | None:
        """Returns the verdict when the run is over and its processes have ended; None if the user stopped it."""
        told_seconds = 0.0
        verdict: Verdict | None = None
        while verdict is None and not stop():
            failed = any(not end.clean for end in self._ranks.exits.values())
            self._ranks.wait(_LOOK_SECONDS_AFTER_FAILURE if failed else _LOOK_SECONDS)
            now = self._ranks.seconds
            if self.launch_seconds is None and self._ranks.all_started:
                self.launch_seconds = now
            verdict = Verdict("over") if self._ranks.over else judge(self._ranks.views(), now, self._limits)
            if now - told_seconds >= _TELL_SECONDS:
                told_seconds = now
                self._ranks.sample()
                hear(self._ranks.pulses(), now)
        self._end(verdict)
        return verdict

    def _end(self, verdict: Verdict | None) -> None:
        if verdict is not None and verdict.kind == "enough":
            self._ranks.pause(_WRITE_SECONDS)
        elif verdict is not None and verdict.kind != "over" and self._needs_stacks(verdict):
            live = [view.rank for view in self._ranks.views() if view.exit is None]
            self.stacks = self._ranks.stacks(live)
        self.last_views = self._ranks.views()
        self._ranks.end()
        self.seconds = self._ranks.seconds

    def _needs_stacks(self, verdict: Verdict) -> bool:
        """Tells whether stacks are needed; they are not if a rank failed for a reason of its own."""
        failures = [end for end in self._ranks.exits.values() if not end.clean]
        return verdict.kind != "failed" or all(end.secondary for end in failures)


def enough_steps(spec: RunSpec) -> int:
    """The number of steps after which every rank's run is ended in order; 0: the script ends it.

    In a ring the last run makes its step after all others have made theirs. The others get one step more, which they
    begin only when the last has made all of its own: so every step that counts was made in turns.
    """
    waits_for_last = spec.turns is not None and spec.turns.index < spec.turns.size - 1
    return spec.enough_steps + 1 if spec.enough_steps and waits_for_last else spec.enough_steps


_UNMAPPED = "Value too large for defined data type"  # an overlay cannot copy a file of another group


def with_world(outcome: Outcome, world: World | None, spec: RunSpec) -> Outcome:
    """The outcome with its files; a script that resumed and had nothing left to train gets a sentence of its own."""
    if world is None:
        return outcome
    outcome = replace(outcome, world=world)
    if outcome.kind == "no_steps" and world.read:
        in_place = spec.folder_use == "in_place"
        instead = "leave --in-place out, so that every run starts from the folder as it was, or " if in_place else ""
        return replace(
            outcome,
            sentence=f"{outcome.sentence}; the script read {world.read[0].text()}",
            hint=f"it seems to have resumed a training that was over: {instead}"
            "move that file away, or let the script train longer",
        )
    if world.view == "overlay" and any(_UNMAPPED in line for end in outcome.ranks for line in end.last_lines):
        return replace(
            outcome, hint="the file belongs to another group, which a private view cannot keep: add --in-place"
        )
    return outcome
