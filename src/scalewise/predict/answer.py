"""What a rehearsal comes to: per number of ranks a prediction and, where so many can run here, a measurement."""

from dataclasses import dataclass, field
from typing import Literal

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.run_files import RunFiles
from scalewise.predict.link import Link
from scalewise.predict.prediction import Predicted, Spread
from scalewise.predict.rehearsed import Rehearsed
from scalewise.predict.timeline import APART, Sharing
from scalewise.records.inspection import MemoryPartsRow

Scaling = Literal["strong", "weak", "script"]


@dataclass(frozen=True)
class Measured:
    """So many ranks really ran here."""

    ranks: int
    step: Estimate  # seconds; median over steps of the slowest rank in each, with the interval of that median
    samples: float | None  # of all ranks in one step
    peak_bytes: int | None  # of the rank that held most


@dataclass(frozen=True)
class Checked:
    """A prediction that was on disk before its measurement began, beside it."""

    ranks: int
    predicted: Estimate
    measured: Estimate

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted.value / self.measured.value

    @property
    def inside(self) -> bool:
        """Whether what was measured lies in the interval that was predicted."""
        return self.predicted.low <= self.measured.value <= self.predicted.high


@dataclass(frozen=True)
class AtRanks:
    """One number of ranks: what was rehearsed, what follows from it, and what was measured."""

    rehearsal: Rehearsed
    predicted: Predicted
    measured: Measured | None = None
    before_rescaling: Rehearsed | None = None  # with the script's own batch; None: `rehearsal` has that one

    @property
    def ranks(self) -> int:
        """How many."""
        return self.predicted.ranks

    @property
    def as_run(self) -> Rehearsed:
        """As a process really ran: what it held in memory is of this batch and no other."""
        return self.before_rescaling or self.rehearsal


@dataclass(frozen=True)
class Refused:
    """A number of ranks for which there is no prediction, and why."""

    ranks: int
    reason: str  # a sentence
    hint: str = ""
    words: tuple[str, ...] = ()  # the script's own last ones, where it failed by itself


@dataclass(frozen=True)
class Base:
    """The step of one rank, against which speedups are told."""

    step: Estimate
    samples: float | None
    measured: bool  # False: rehearsed


@dataclass(frozen=True)
class Answer:
    """Everything that `scalewise rehearse` has found; what it shows is worked out from this."""

    script: str
    args: tuple[str, ...]
    device: str
    link: Link
    sharing: Sharing = APART
    spread: Spread = field(default_factory=Spread)  # with the error of the self-check in it
    scaling: Scaling = "script"  # that was asked for
    at: tuple[AtRanks, ...] = ()  # fewest ranks first
    base: Base | None = None
    checks: tuple[Checked, ...] = ()
    check_failed: bool = False  # real ranks did not get through; a warning says how
    refused: tuple[Refused, ...] = ()
    warnings: tuple[str, ...] = ()  # what of it may not hold, in sentences: steered, not rehearsed, ranks that differ
    guesses: tuple[str, ...] = ()  # what the numbers rest on beside measurements
    others: tuple[Rehearsed, ...] = ()  # of other batches: they tell what a sample costs in time and memory
    fine: Rehearsed | None = None  # with a bucket for each gradient: it tells what other sizes of buckets would do
    parts: MemoryPartsRow | None = None  # of an inspected rehearsal, with as many samples as the fewest ranks ran with
    folder: str = ""  # of the runs
    files: tuple[RunFiles, ...] = ()  # that the runs wrote and read
