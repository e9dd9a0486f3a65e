"""A launcher that starts nothing: its ranks live in memory, by a clock that goes on only while somebody waits.

So a campaign, what it resumes and every verdict of supervision can be tested in milliseconds, without a process.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from factories import rank_lines
from scalewise.launch.launcher import LaunchFailed
from scalewise.launch.verdict import Exit, RankView
from scalewise.records.folder import RunFolder
from scalewise.records.outcome import World
from scalewise.records.pulse import Pulse
from scalewise.records.spec import RunSpec

OVERHEAD_SECONDS = 0.5  # that the start itself takes


@dataclass(frozen=True)
class Move:
    """What a rank does at one moment; it stays in that state until its next move."""

    at_seconds: float
    state: str = "forward"
    steps: int = 0
    syncs: int = 0


@dataclass(frozen=True)
class Part:
    """What one rank does from its start to its end; without an end it goes on for ever."""

    moves: tuple[Move, ...] = ()
    end: Exit | None = None
    rows: bytes = b""  # of its file, when it has ended in order
    stderr: str = ""
    stack: tuple[str, ...] = ()  # where it stands when it is asked


def training(steps: int = 40, step_seconds: float = 0.1) -> Part:
    """A rank that makes its steps and leaves in order."""
    moves = tuple(Move(step * step_seconds, "optimizer", step, step) for step in range(1, steps + 1))
    return Part(moves, Exit(0, None, (steps + 1) * step_seconds), rank_lines(steps=steps))


def raising(at_seconds: float = 1.0) -> Part:
    """A rank that fails by an exception of its own."""
    stderr = "Traceback (most recent call last):\n  ...\nValueError: no data\n"
    return Part((Move(0.1),), Exit(1, None, at_seconds), stderr=stderr)


@dataclass
class FakeRanks:
    """The ranks of one run."""

    spec: RunSpec
    folder: RunFolder
    parts: Sequence[Part]
    seconds: float = 0.0
    seconds_before: float = OVERHEAD_SECONDS
    memory_kills: int = 0
    hosts: tuple[str, ...] = ()
    samples: int = 0
    ended: bool = False
    closed: bool = False
    exits: dict[int, Exit] = field(default_factory=dict)

    @property
    def all_started(self) -> bool:
        return True

    @property
    def over(self) -> bool:
        return len(self.exits) == len(self.parts)

    def wait(self, seconds: float) -> None:
        """Time goes on to the next end, if that comes before."""
        due = [one.end.at_seconds for rank, one in enumerate(self.parts) if one.end and rank not in self.exits]
        self.seconds = min([self.seconds + seconds, *(max(at, self.seconds) for at in due)])
        for rank, part in enumerate(self.parts):
            if part.end is not None and part.end.at_seconds <= self.seconds and rank not in self.exits:
                self.exits[rank] = part.end
                self.folder.rank(rank).write_bytes(part.rows)
                self.folder.stderr(rank).write_text(part.stderr)

    def pause(self, seconds: float) -> None:
        self.seconds += seconds

    def pulses(self) -> tuple[Pulse, ...]:
        moves = [self._last(part) for part in self.parts]
        return tuple(Pulse(int(one.at_seconds * 1e9), one.steps, one.state, one.syncs, 0) for one in moves)

    def views(self) -> tuple[RankView, ...]:
        moves = [self._last(part) for part in self.parts]
        return tuple(
            RankView(rank, self.exits.get(rank), one.at_seconds, one.state, one.steps, one.syncs)
            for rank, one in enumerate(moves)
        )

    def sample(self) -> None:
        self.samples += 1

    def stacks(self, ranks: Sequence[int]) -> dict[int, tuple[str, ...]]:
        return {rank: self.parts[rank].stack for rank in ranks}

    def end(self) -> None:
        self.ended = True

    def start_problem(self) -> tuple[str, str]:
        return "", ""

    def close(self) -> World | None:
        assert not self.closed
        self.closed = True
        return None

    def _last(self, part: Part) -> Move:
        done = [move for move in part.moves if move.at_seconds <= self.seconds]
        return done[-1] if done else Move(0.0, "starting")


@dataclass
class FakeLauncher:
    """Gives each rank of a run its part, by the spec; without parts the run cannot be started."""

    parts: Callable[[RunSpec], Sequence[Part]]
    started: list[FakeRanks] = field(default_factory=list)

    def start(self, spec: RunSpec, folder: RunFolder) -> FakeRanks:
        parts = self.parts(spec)
        if not parts:
            raise LaunchFailed("nobody is here to start it", "hire somebody")
        self.started.append(FakeRanks(spec, folder, parts))
        return self.started[-1]
