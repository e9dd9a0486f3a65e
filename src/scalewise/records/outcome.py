"""The outcome of a run and what it did to files: written last, by rename, so its presence means the run is over."""

from dataclasses import dataclass
from typing import Literal

# overlay: writes go to a layer of the run's own, at the same path; copy: the script starts in a copy of the folder;
# in_place: the script works in the user's folder itself.
View = Literal["overlay", "copy", "in_place"]
Change = Literal["created", "changed", "removed"]


@dataclass(frozen=True)
class WrittenFile:
    """A file that differs from what was there before the run."""

    path: str  # relative to the working folder; absolute outside of it
    change: Change
    bytes: int  # after the run; of a removed file: before it
    kept: bool = False  # in `files/` of the run's folder
    rank: int | None = None  # set if every rank has a view of its own


@dataclass(frozen=True)
class ReadFile:
    """A checkpoint that the run opened before it wrote to it."""

    path: str
    written_by: str = ""  # the earlier run of the suite that wrote it; empty: it was there before all of them

    def text(self) -> str:
        """A phrase that says whose file it is: `snapshot.pt, which train-ranks1-r0 had written`."""
        whose = f"{self.written_by} had written" if self.written_by else "was there before the run"
        return f"{self.path}, which {whose}"


@dataclass(frozen=True)
class World:
    """The working folder of one run: its kind of view, and the files written and read."""

    view: View
    files: tuple[WrittenFile, ...] = ()  # the first ones by path
    files_in_all: int = 0
    bytes_in_all: int = 0  # of those created or changed
    read: tuple[ReadFile, ...] = ()
    not_private: tuple[str, ...] = ()  # parts of the folder to which the script wrote, or could write, directly
    unlisted: str = ""  # why changes may be missing from `files`; empty: none is


OutcomeKind = Literal[
    "finished",  # every rank exited 0 and at least one optimizer step was seen
    "enough",  # every rank had made as many steps as were asked for, and was ended
    "no_steps",  # every rank exited 0 but no optimizer step was seen
    "aborted_at_exit",  # training was over; the interpreter died while shutting down
    "raised",  # a rank ended with an exception or a non-zero exit code
    "killed",  # a rank died of a signal
    "out_of_memory",
    "left_early",  # a rank exited 0 while others waited for it
    "hung",  # no rank moved for the stall limit
    "timed_out",  # the run took longer than its limit
    "interrupted",  # Ctrl-C, or a host that was lost
    "not_started",  # the launcher could not start the ranks
    "watcher_failed",  # an exception of the watcher's own went through the script and ended a rank
]


@dataclass(frozen=True)
class RankEnd:
    """The end of one rank, and its last output."""

    rank: int
    exit_code: int | None  # None: ended by us
    signal: str | None  # SIGKILL, SIGSEGV, ...
    seconds: float  # from the run's start to this rank's end
    doing: str  # its last known state: forward, backward, all_reduce, ...
    last_lines: tuple[str, ...]  # of its stderr
    stack: tuple[str, ...]  # Python stack, innermost first, when the run hung
    raised: str = ""  # as its traceback ends: `ValueError: no`; empty: no exception, or a run made before this was kept

    @property
    def exception(self) -> str:
        """The type of the exception that ended it, such as `ValueError`; empty if none did."""
        return self.raised.partition(":")[0].strip()


@dataclass(frozen=True)
class Outcome:
    """The end of a run, in data and in one sentence."""

    kind: OutcomeKind
    sentence: str
    hint: str
    first_failed_rank: int | None
    ranks: tuple[RankEnd, ...]
    launch_seconds: float  # from the request to the last rank running
    wall_seconds: float
    logs: tuple[str, ...]  # relative to the run's folder
    raised_by: tuple[str, ...] = ()  # of watcher_failed: the concerns of `records.wrapped` that may have raised
    world: World | None = None  # None: not recorded
    hosts: tuple[str, ...] = ()  # of its ranks, the first ranks first; empty: one host, which its ranks name

    @property
    def first_failed(self) -> RankEnd | None:
        """The end of the rank that failed first; None if none failed."""
        return next((end for end in self.ranks if end.rank == self.first_failed_rank), None)

    @property
    def measured(self) -> bool:
        """Tells whether the run's rows may be used as a measurement."""
        return self.kind in ("finished", "enough", "aborted_at_exit")
