"""Makes the runs of a plan one after another, each in its folder; finished runs are not made again."""

import errno
import fcntl
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Protocol

from scalewise.errors import BadRequest
from scalewise.launch.failure_logs import shortened
from scalewise.launch.forkserver import Servers, ServerSource, user_environment
from scalewise.launch.launcher import Launcher
from scalewise.launch.local import launcher_of
from scalewise.launch.private_views import discard
from scalewise.launch.supervise import run_one
from scalewise.launch.torchrun import command_text
from scalewise.launch.turn_group import make_together
from scalewise.records.codec import read_json_or_none, write_json
from scalewise.records.folder import RunFolder, SuiteFolder, keep_made, made_runs
from scalewise.records.machine import MachineFacts
from scalewise.records.outcome import Outcome
from scalewise.records.pulse import Pulse
from scalewise.records.spec import IDENTITY, RunSpec
from scalewise.records.wrapped import left_out_with

# Outcomes that say nothing about the script: such a run is made again.
_NOT_RESULTS = ("interrupted", "not_started", "watcher_failed")
_counting = threading.Lock()  # runs that take turns end at the same time
MOST_TIMES_AGAIN = 3  # how often runs are made again because a part of the watcher has failed in the script


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the folder's lock; the kernel releases it however this process ends."""
    with open(folder / ".lock", "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadRequest(
                f"another scalewise is measuring into {folder}",
                "wait until it has ended, or choose another folder",
            ) from None
        yield


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


class Interrupts:
    """A context that notes the user's request to stop; the earlier signal handlers are restored afterwards."""

    def __init__(self) -> None:
        self.asked = False
        self.last_run = False  # SIGUSR1: the one that is being made may end, and no other begins
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                # `nohup` ignores SIGHUP so that the runs outlive the terminal; that stays so.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGUSR1:
            self.last_run = True
            return
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


class Listener(Protocol):
    """The interface by which a campaign reports its progress; called between looks at the ranks, so it must be fast."""

    def started(self, index: int, total: int, spec: RunSpec) -> None:
        """Called when a run begins."""

    def pulses(self, spec: RunSpec, pulses: tuple[Pulse, ...], seconds: float) -> None:
        """Called twice a second with the signs of life of the run's ranks."""

    def ended(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """Called when a run has ended, in whatever way."""

    def skipped(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """Called for a run that had been made before."""


class OneAtATime:
    """A listener that passes calls on from one thread at a time, so that the inner one need not be thread-safe."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Callable[..., None]:
        told = getattr(self._listener, name)

        def tell(*values: object) -> None:
            with self._lock:
                told(*values)

        return tell


def run_campaign(
    specs: Sequence[RunSpec],
    folder: SuiteFolder,
    machine: MachineFacts,
    listener: Listener,
    servers: Servers | None = None,
    interrupts: Interrupts | None = None,
    launcher: Launcher | None = None,
) -> tuple[Outcome | None, ...]:
    """The outcome of every run in order; None for those that an interruption left unmade.

    Who goes on to other campaigns gives `interrupts`: they tell of a wish that came when the last run was just ending.
    `launcher` starts all runs that take no turns, instead of the one that each spec names.
    """
    outcomes: list[Outcome | None] = [None] * len(specs)
    with ExitStack() as stack:
        stack.enter_context(disk_trouble_explained(folder.path))
        folder.path.mkdir(parents=True, exist_ok=True)
        stack.enter_context(locked(folder.path))
        for left in folder.path.glob("*/.view"):  # left by a process that was killed
            discard(left)
        servers = servers or stack.enter_context(Servers())
        interrupts = stack.enter_context(interrupts or Interrupts())
        maker = _Maker(specs, folder, machine, servers, OneAtATime(listener), interrupts, launcher)
        for start, stop in rings(specs):
            if interrupts.asked or interrupts.last_run:
                break
            outcomes[start:stop] = maker.make(range(start, stop))
    return tuple(outcomes)


def rings(specs: Sequence[RunSpec]) -> Iterator[tuple[int, int]]:
    """Yields the begin and end of each group of runs that are made together; most groups are single runs."""
    start = 0
    for index, spec in enumerate(specs):
        following = specs[index + 1].turns if index + 1 < len(specs) else None
        if spec.turns is None or following is None or spec.turns.ring != following.ring:
            yield start, index + 1
            start = index + 1


@dataclass(frozen=True)
class _Maker:
    """The state that all runs of a campaign share."""

    specs: Sequence[RunSpec]
    folder: SuiteFolder
    machine: MachineFacts
    servers: Servers
    listener: Listener
    interrupts: Interrupts
    launcher: Launcher | None
    made: dict[str, None] = field(default_factory=dict)
    left_out: dict[str, dict[str, str]] = field(default_factory=dict)  # by script: parts of the watcher, and why

    def make(self, indices: range) -> list[Outcome]:
        """The outcomes of runs that belong together; a ring in which one is missing is made again as a whole."""
        found = [finished_outcome(self.folder.run(self.specs[index].name), self.specs[index]) for index in indices]
        known = [outcome for outcome in found if outcome is not None]
        if len(known) == len(found):
            for index, outcome in zip(indices, known, strict=True):
                self.listener.skipped(index, len(self.specs), self.specs[index], outcome)
            return known
        for _ in range(MOST_TIMES_AGAIN):
            outcomes = self._made(indices, again=True)
            if self.interrupts.asked or not self._leave_out(indices, outcomes):
                return outcomes
        return self._made(indices, again=False)

    def _leave_out(self, indices: range, outcomes: Sequence[Outcome]) -> bool:
        """Records which parts of the watcher failed in the script; True if one is new that the runs can do without.

        If the script fails without them as well, it was the script's fault, and later runs have them again.
        """
        learned = False
        for index, outcome in zip(indices, outcomes, strict=True):
            known = self.left_out.setdefault(self.specs[index].script, {})
            for name in filter(None, map(left_out_with, outcome.raised_by)):
                learned = learned or name not in known
                known[name] = _reason(outcome)
            if outcome.kind == "raised":
                known.clear()
        return learned

    def _keep_count(self, spec: RunSpec) -> None:
        """Adds the run to the list of runs made; earlier names stay if the folder is removed between two runs."""
        with _counting:
            self.made.update(dict.fromkeys([*made_runs(self.folder), spec.name]))
            keep_made(self.folder, tuple(self.made))

    def _spec(self, index: int) -> RunSpec:
        spec = self.specs[index]
        known = self.left_out.get(spec.script, {})
        return replace(spec, without_hooks={**spec.without_hooks, **known}) if known else spec

    def _made(self, indices: range, again: bool) -> list[Outcome]:
        if self.specs[indices[0]].turns is None:
            return [self._one(indices[0], self.servers, lambda: self.interrupts.asked, again)]
        places = {self.specs[index].name: index for index in indices}

        def make(spec: RunSpec, server: ServerSource, stop: Callable[[], bool]) -> Outcome:
            return self._one(places[spec.name], server, lambda: self.interrupts.asked or stop(), again)

        return make_together([self._spec(index) for index in indices], self.folder, self.servers, make)

    def _one(self, index: int, servers: ServerSource, stop: Callable[[], bool], again: bool) -> Outcome:
        spec = self._spec(index)
        self.listener.started(index, len(self.specs), spec)
        folder = self.folder.run(spec.name)
        _prepare(spec, folder, self.machine)
        launcher = self.launcher or launcher_of(spec, self.machine, servers)
        hear = partial(self.listener.pulses, spec)
        outcome = run_one(spec, folder, launcher, hear, stop)
        if again and {*map(left_out_with, outcome.raised_by)} - {"", *spec.without_hooks}:
            outcome = replace(outcome, hint="the run is made again without it")
        write_json(folder.outcome, outcome)
        self._keep_count(spec)
        self.listener.ended(index, len(self.specs), spec, outcome)
        return outcome


def _reason(outcome: Outcome) -> str:
    """The error that the part of the watcher raised, shortened."""
    end = outcome.first_failed
    return shortened(end.raised if end is not None else "", 200) or "it raised an error"


def _prepare(spec: RunSpec, run: RunFolder, machine: MachineFacts) -> None:
    """Makes room for a run, and writes its spec, machine and command."""
    clear(run)
    run.path.mkdir(parents=True, exist_ok=True)
    write_json(run.spec, spec)
    write_json(run.machine, machine)
    text = command_text(spec, run.spec.resolve(), machine.isa_cap, user_environment())
    run.command.write_text(text, encoding="utf-8")


def finished_outcome(run: RunFolder, spec: RunSpec) -> Outcome | None:
    """The outcome of the run if it was made before; None if it is to be made, for the first time or again."""
    outcome, made = read_json_or_none(run.outcome, Outcome), read_json_or_none(run.spec, RunSpec)
    if outcome is None or made is None or outcome.kind in _NOT_RESULTS:
        return None
    if made.key(IDENTITY) != spec.key(IDENTITY):
        raise BadRequest(
            f"{run.path} already holds a different run of the same name",
            "choose another folder, or remove that one",
        )
    return outcome


def clear(run: RunFolder) -> None:
    """Makes room for a run: what an unfinished one has left is moved aside, where it is not taken for a run."""
    if not run.rank_files():
        for left in (run.outcome, run.link, *run.path.glob("rank*.stack.txt")):
            left.unlink(missing_ok=True)
        discard(run.files)
        return
    number = 1
    while (aside := run.path.with_name(f"{run.path.name}.partial-{number}")).exists():
        number += 1
    run.path.rename(aside)
    left = RunFolder(aside).spec
    if left.exists():
        left.rename(left.with_name("spec.partial.json"))


@contextmanager
def disk_trouble_explained(folder: Path) -> Iterator[None]:
    """Turns the errors that a full or read-only disk causes for our own files into a BadRequest."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise BadRequest(
                f"the disk that holds {folder} is full",
                "free some space, then run the same command again: it continues where it stopped",
            ) from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST):
            raise BadRequest(
                f"cannot write to {error.filename or folder}: {error.strerror}",
                "choose a folder that you may write to",
            ) from error
        if error.errno == errno.ENOENT and not folder.exists():
            raise BadRequest(
                f"{folder} was removed while its runs were being made", "run the same command again: it starts anew"
            ) from error
        raise
