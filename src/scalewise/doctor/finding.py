"""A check is one file in `checks/`: what it says of itself, what it finds, and what a replay of its fix showed."""

import functools
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from scalewise.analysis.estimate import Estimate
from scalewise.doctor.case import Case
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


@dataclass(frozen=True)
class TimeSaved:
    """The time by which a step is shorter with the change; negative if it is longer."""

    milliseconds: Estimate
    step_milliseconds: float  # step time of the script as it is
    how: str


@dataclass(frozen=True)
class GradientPair:
    """Rank 0's gradients of the first optimizer step, when the parameters of both runs are still the same."""

    step: int
    plain_norm: float
    mended_norm: float
    plain_projection: float  # onto a fixed direction: two gradients agree if norm and projection do
    mended_projection: float
    plain_zeros: float  # share of elements that are exactly zero
    mended_zeros: float

    @property
    def factor(self) -> float | None:
        """The length of the mended gradient over that of the plain one; None if the plain one is zero."""
        return self.mended_norm / self.plain_norm if self.plain_norm else None


@dataclass(frozen=True)
class Replayed:
    """Two further runs of the same script and data: as it is, and with the change applied from outside."""

    change: Change
    plain: Case
    mended: Case
    applied: int  # how often the change took effect; 0: it could not be applied
    spared: TimeSaved | None  # None: the times cannot be compared
    trouble: str = ""  # how the script ended with the change, if it runs only without
    gradients: GradientPair | None = None  # None: not seen in both runs


def priced_by_time(finding: Finding, replayed: Replayed, of: str) -> Finding:
    """Prices the finding by the time its change saves; a suspicion if the mended script fails or is not faster."""
    if replayed.trouble:
        words = f"with {replayed.change.label()} the script did not run: {replayed.trouble}"
        return replace(finding, proof="suspected", evidence=(*finding.evidence, words))
    spared = replayed.spared
    if not replayed.applied or spared is None:
        return finding
    less = spared.milliseconds
    if less.high <= 0:
        words = f"a step takes {-less.value:.3g} ms longer with {replayed.change.label()}, not less"
        return replace(finding, proof="suspected", evidence=(*finding.evidence, words))
    if less.low <= 0:
        words = f"the time it costs cannot be told from nothing here ({less.low:.3g} to {less.high:.3g} ms a step)"
        return replace(finding, evidence=(*finding.evidence, words))
    price = Price(less.value, "ms per step", of, spared.how, less)
    share = less.value / spared.step_milliseconds if spared.step_milliseconds else 0.0
    words = f"a step takes {spared.step_milliseconds:.3g} ms, {share:.1%} less with {replayed.change.label()}"
    return replace(finding, price=price, proof="replayed", evidence=(*finding.evidence, words))


MATTERS = 0.02  # share of a step: a fix that saves less is not worth mentioning
SURELY_NOT = 0.05  # share of a step: a finding is dismissed only if the upper end of the interval is below it


def priced_or_dismissed(finding: Finding, replayed: Replayed, of: str) -> Finding | None:
    """Prices a finding that is a mistake only if it costs time; None if the fix was measured to save next to nothing.

    If the interval is too wide to tell, the finding stays a suspicion.
    """
    settled = priced_by_time(finding, replayed, of)
    spared = replayed.spared
    if replayed.trouble or not replayed.applied or spared is None:
        return settled
    step = spared.step_milliseconds
    if spared.milliseconds.value < MATTERS * step and spared.milliseconds.high < SURELY_NOT * step:
        return None
    return settled if settled.proof == "replayed" else replace(settled, proof="suspected", price=None)


Group = Literal[
    "accumulation", "precision", "data", "ddp", "hang", "timing", "machine", "model parallel", "model", "gpu"
]
GROUPS: tuple[Group, ...] = (
    "accumulation", "precision", "data", "ddp", "hang", "timing", "machine", "model parallel", "model", "gpu",
)  # fmt: skip


@dataclass(frozen=True)
class Check:
    """The description of a check, from which the page of checks, --list and --explain are made."""

    name: str
    group: Group
    severity: Severity  # the usual severity of its findings
    detects: str  # one sentence
    why: str  # why the mistake is bad
    example: str  # the mistake, a few lines
    fix: str  # the same, mended
    needs: str  # what must have been seen; without it the check abstains
    silent: str = ""  # what looks like the mistake and is not, so that the check is silent on purpose


@dataclass(frozen=True)
class Rule:
    """A check's description together with its functions."""

    check: Check
    examine: Callable[[Case], tuple[Finding, ...]]  # may raise Abstain
    # Returns the finding as a replay of its change leaves it, or None if the replay shows that it is no mistake.
    settle: Callable[[Case, Finding, Replayed], Finding | None] | None


@functools.cache
def rules() -> tuple[Rule, ...]:
    """Returns all checks, sorted by group and name."""
    from scalewise.doctor import checks

    found = []
    for info in pkgutil.iter_modules(checks.__path__):
        module = importlib.import_module(f"{checks.__name__}.{info.name}")
        found.append(Rule(module.CHECK, module.examine, getattr(module, "settle", None)))
    return tuple(sorted(found, key=lambda rule: (GROUPS.index(rule.check.group), rule.check.name)))
