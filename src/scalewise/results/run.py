"""A run as read back from its folder: what it was asked to do, what each rank recorded, how it ended."""

from dataclasses import dataclass
from pathlib import Path

from scalewise.records.examination import AppliedRow, ExaminationRow
from scalewise.records.inspection import InspectionRow
from scalewise.records.machine import MachineFacts, SampleRow
from scalewise.records.notes import Note
from scalewise.records.outcome import Outcome
from scalewise.records.rehearsal import RehearsalRow
from scalewise.records.rows import (
    EndRow,
    ExposedRow,
    LevelRow,
    MemoryRow,
    ModelRow,
    ParametersRow,
    RootRow,
    StartRow,
    StepRow,
    TroubleRow,
)
from scalewise.records.spec import RunSpec
from scalewise.records.traffic import Traffic
from scalewise.records.utilisation import UtilisationRow


@dataclass(frozen=True)
class RankRecord:
    """Everything that one rank's file holds, by kind."""

    rank: int
    start: StartRow | None = None
    model: ModelRow | None = None
    steps: tuple[StepRow, ...] = ()
    memory: tuple[MemoryRow, ...] = ()
    exposed: tuple[ExposedRow, ...] = ()
    trouble: tuple[TroubleRow, ...] = ()
    end: EndRow | None = None
    torn_lines: int = 0
    bad_lines: tuple[str, ...] = ()
    inspection: tuple[InspectionRow, ...] = ()  # only in an inspected run
    notes: tuple[Note, ...] = ()  # only in an examined run
    examination: tuple[ExaminationRow, ...] = ()
    rehearsal: tuple[RehearsalRow, ...] = ()  # only in a rehearsed run
    levels: tuple[LevelRow, ...] = ()
    traffic: Traffic | None = None  # what the rank exchanged with other ranks; None: not read
    parameters: ParametersRow | None = None
    roots: tuple[RootRow, ...] = ()  # the modules that the script calls itself
    utilisation: tuple[UtilisationRow, ...] = ()  # only in an inspected run

    def applied(self, change: str) -> int:
        """Returns how often the change took effect; older runs count a finding's fix as `remedy:NAME`."""
        told = [row.applied for row in self.examination if isinstance(row, AppliedRow) and row.change == change]
        counts = self.end.changes_applied if self.end else {}
        return max([counts.get(change, 0), counts.get(f"remedy:{change}", 0), *told])


@dataclass(frozen=True)
class Run:
    """One run; `notes` say what in its folder could not be read."""

    folder: Path
    spec: RunSpec
    outcome: Outcome | None  # None: not finished
    machine: MachineFacts | None
    ranks: tuple[RankRecord, ...]
    samples: tuple[SampleRow, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def measured(self) -> bool:
        """Tells whether the run's rows may be used as a measurement."""
        return self.outcome is not None and self.outcome.measured and any(rank.steps for rank in self.ranks)

    @property
    def started_unix_seconds(self) -> float | None:
        """The time at which the first rank started; None if no rank recorded it."""
        return min((rank.start.started_unix_seconds for rank in self.ranks if rank.start), default=None)

    def applied(self, change: str) -> int:
        """Returns how often the change took effect on all ranks, by the last row that each has written of it."""
        return sum(rank.applied(change) for rank in self.ranks)


@dataclass(frozen=True)
class ExperimentText:
    """The texts that the suite gives to an experiment, for headings."""

    name: str
    title: str = ""
    question: str = ""
    ranks: tuple[int, ...] = ()  # numbers of ranks asked for, fewest first; empty: not said


@dataclass(frozen=True)
class LoadedSuite:
    """The runs of a folder, and the texts that the suite gives."""

    path: Path
    name: str
    runs: tuple[Run, ...]
    title: str = ""
    about: str = ""
    experiments: tuple[ExperimentText, ...] = ()  # in the order of the suite
    notes: tuple[str, ...] = ()
