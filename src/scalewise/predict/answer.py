"""The result of a rehearsal: a prediction per number of ranks and, if that many can run here, a measurement."""

from dataclasses import dataclass, field
from typing import Literal

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.run_files import RunFiles
from scalewise.predict.link import Link
from scalewise.predict.prediction import Predicted, Spread
from scalewise.predict.rehearsed import RehearsedRank
from scalewise.predict.timeline import APART, Sharing
from scalewise.records.inspection import MemoryPartsRow

Scaling = Literal["strong", "weak", "script"]


@dataclass(frozen=True)
class MeasuredStep:
    """The measured step of a run in which this many ranks really ran here."""

    ranks: int
    step: Estimate  # seconds; median over steps of the slowest rank in each, with the interval of that median
    samples: float | None  # of all ranks in one step
    peak_bytes: int | None  # of the rank that held most


@dataclass(frozen=True)
class Checked:
    """A prediction that was on disk before its measurement began, and that measurement."""

    ranks: int
    predicted: Estimate
    measured: Estimate

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted.value / self.measured.value

    @property
    def inside(self) -> bool:
        """Tells whether the measured value lies in the predicted interval."""
        return self.predicted.low <= self.measured.value <= self.predicted.high


@dataclass(frozen=True)
class AtRanks:
    """One number of ranks: what was rehearsed, what is predicted from it, and what was measured."""

    rehearsal: RehearsedRank
    predicted: Predicted
    measured: MeasuredStep | None = None
    before_rescaling: RehearsedRank | None = None  # with the script's own batch; None: `rehearsal` has it

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.predicted.ranks

    @property
    def as_run(self) -> RehearsedRank:
        """The rehearsal as a process really ran it: the memory that it held belongs to this batch and no other."""
        return self.before_rescaling or self.rehearsal


@dataclass(frozen=True)
class Refused:
    """A number of ranks for which there is no prediction, and the reason."""

    ranks: int
    reason: str  # a sentence
    hint: str = ""
    words: tuple[str, ...] = ()  # the script's own last output, if it failed by itself


@dataclass(frozen=True)
class Base:
    """The step of one rank, with which speedups are computed."""

    step: Estimate
    samples: float | None
    measured: bool  # False: rehearsed


@dataclass(frozen=True)
class RehearsalAnswer:
    """Everything that `scalewise rehearse` has found; what it shows is computed from this."""

    script: str
    args: tuple[str, ...]
    device: str
    link: Link
    sharing: Sharing = APART  # among the most ranks
    spread: Spread = field(default_factory=Spread)  # includes the error of the self-check
    scaling: Scaling = "script"  # as asked for
    at: tuple[AtRanks, ...] = ()  # fewest ranks first
    base: Base | None = None
    checks: tuple[Checked, ...] = ()
    check_failed: bool = False  # the real ranks failed; a warning says how
    refused: tuple[Refused, ...] = ()
    warnings: tuple[str, ...] = ()  # sentences about what may not hold: steered, not rehearsed, ranks that differ
    guesses: tuple[str, ...] = ()  # assumptions of the numbers beside measurements
    others: tuple[RehearsedRank, ...] = ()  # with other batches: they show what a sample costs in time and memory
    fine: RehearsedRank | None = None  # with a bucket for each gradient: it shows the effect of other bucket sizes
    parts: MemoryPartsRow | None = None  # of an inspected rehearsal, with as many samples as the fewest ranks ran with
    folder: str = ""  # of the runs
    files: tuple[RunFiles, ...] = ()  # that the runs wrote and read
