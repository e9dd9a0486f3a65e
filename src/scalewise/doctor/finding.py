"""The doctor's results: a finding with evidence, place, price and fix; or the reason why a check was not made."""

from dataclasses import dataclass, field
from typing import Literal

from scalewise.analysis.estimate import Estimate
from scalewise.records.examination import PlaceRow
from scalewise.records.spec import Change

# wrong: the result is not what the script means to compute, or there is none. slow: it costs time or memory.
# note: worth knowing, but no fault; like a suspicion it never changes the exit code.
Severity = Literal["wrong", "slow", "note"]
# observed: the run itself shows it. replayed: the run was made again with the fix. suspected: neither could prove it.
Proof = Literal["observed", "replayed", "suspected"]
Unit = Literal["ms per step", "bytes", "times", "share", "samples", "steps"]
SEVERITIES: tuple[Severity, ...] = ("wrong", "slow", "note")


@dataclass(frozen=True)
class Price:
    """The cost of a mistake: a number, what it is a number of, and how it is known."""

    value: float
    unit: Unit
    of: str  # `communication that no_sync would spare`
    how: str  # `measured`, `measured with the fix applied, in turns with the script as it is`, `computed from ...`
    interval: Estimate | None = None  # interval around the value; None: it was counted or computed, not measured


@dataclass(frozen=True)
class SweepPoint:
    """One value of a sweep, replayed, with the time that the loop saves with it."""

    change: Change
    milliseconds: Estimate  # spared; negative: it takes longer


@dataclass(frozen=True)
class Finding:
    """One mistake in one script."""

    check: str
    severity: Severity
    sentence: str  # the verdict, one sentence with the numbers that matter most
    evidence: tuple[str, ...]  # one fact each, with its numbers
    fix: str  # a few lines of code, with the script's own names where they are known
    where: PlaceRow | None = None
    also: tuple[PlaceRow, ...] = ()  # further lines that belong to it
    price: Price | None = None
    proof: Proof = "observed"
    ranks: tuple[int, ...] = ()  # that it concerns; empty: all
    steps_seen: int = 0  # on which it rests
    change: Change | None = None  # what a replay would apply to prove or price it
    sweep: tuple[Change, ...] = ()  # further values to try, one by one, after all changes
    tried: tuple[SweepPoint, ...] = ()  # what came of them

    @property
    def counts(self) -> bool:
        """True if the finding changes the exit code."""
        return self.proof != "suspected" and self.severity != "note"


@dataclass(frozen=True)
class Unchecked:
    """A check that could not be made, with the reason."""

    check: str
    reason: str


@dataclass(frozen=True)
class Diagnosis:
    """The complete result of the doctor for one script."""

    script: str
    findings: tuple[Finding, ...]  # worst first
    passed: tuple[str, ...]
    unchecked: tuple[Unchecked, ...]
    notes: tuple[str, ...] = ()  # remarks on the examination itself: how it ended, what it could not see
    steps: int = 0
    ranks: int = 0
    seconds: float = 0.0
    failure: str = ""  # the script's own last message, if it failed by itself
    folder: str = ""
    machine: dict[str, str] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """The exit code: 0 if nothing was found, 2 if something was."""
        return 2 if any(finding.counts for finding in self.findings) else 0
