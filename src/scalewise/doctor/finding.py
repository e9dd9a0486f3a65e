"""Defines what the doctor reports (a finding: proof, price and fix), and what a check is: one file in `checks/`."""

import functools
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from scalewise.analysis.estimate import Estimate, level_text
from scalewise.doctor.case import Case
from scalewise.records.examination import PlaceRow
from scalewise.records.spec import Change
from scalewise.units import bytes_text, counted, named_ranks, three_digits

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
    milliseconds: Estimate  # saved; negative: it takes longer


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
    fixed_norm: float
    plain_projection: float  # onto a fixed direction: two gradients agree if norm and projection do
    fixed_projection: float
    plain_zeros: float  # share of elements that are exactly zero
    fixed_zeros: float

    @property
    def factor(self) -> float | None:
        """The length of the fixed gradient over that of the plain one; None if the plain one is zero."""
        return self.fixed_norm / self.plain_norm if self.plain_norm else None


@dataclass(frozen=True)
class Replayed:
    """Two further runs of the same script and data: as it is, and with the change applied from outside."""

    change: Change
    plain: Case
    fixed: Case
    applied: int  # how often the change took effect; 0: it could not be applied
    saved: TimeSaved | None  # None: the times cannot be compared
    trouble: str = ""  # how the script ended with the change, if it runs only without
    gradients: GradientPair | None = None  # None: not seen in both runs


def priced_by_time(finding: Finding, replayed: Replayed, of: str) -> Finding:
    """Prices the finding by the time its change saves; a suspicion if the fixed script fails or is not faster."""
    if replayed.trouble:
        words = f"with {replayed.change.label()} the script did not run: {replayed.trouble}"
        return replace(finding, proof="suspected", evidence=(*finding.evidence, words))
    saved = replayed.saved
    if not replayed.applied or saved is None:
        return finding
    less = saved.milliseconds
    if less.high <= 0:
        words = f"a step takes {-less.value:.3g} ms longer with {replayed.change.label()}, not less"
        return replace(finding, proof="suspected", evidence=(*finding.evidence, words))
    if less.low <= 0:
        words = f"the time it costs cannot be told from nothing here ({less.low:.3g} to {less.high:.3g} ms a step)"
        return replace(finding, evidence=(*finding.evidence, words))
    price = Price(less.value, "ms per step", of, saved.how, less)
    share = less.value / saved.step_milliseconds if saved.step_milliseconds else 0.0
    words = f"a step takes {saved.step_milliseconds:.3g} ms, {share:.1%} less with {replayed.change.label()}"
    return replace(finding, price=price, proof="replayed", evidence=(*finding.evidence, words))


MATTERS = 0.02  # share of a step: a fix that saves less is not worth mentioning
SURELY_NOT = 0.05  # share of a step: a finding is dismissed only if the upper end of the interval is below it


def priced_or_dismissed(finding: Finding, replayed: Replayed, of: str) -> Finding | None:
    """Prices a finding that is a mistake only if it costs time; None if the fix was measured to save next to nothing.

    If the interval is too wide to tell, the finding stays a suspicion.
    """
    settled = priced_by_time(finding, replayed, of)
    saved = replayed.saved
    if replayed.trouble or not replayed.applied or saved is None:
        return settled
    step = saved.step_milliseconds
    if saved.milliseconds.value < MATTERS * step and saved.milliseconds.high < SURELY_NOT * step:
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
    fix: str  # the same, fixed
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


LINES_AROUND = 4
MOST_BYTES = 4_000_000  # size limit of a source file; a larger file is not source


@dataclass(frozen=True)
class SourceLine:
    """A line of the script as it is in the file."""

    number: int
    text: str


@dataclass(frozen=True)
class Sorted:
    """The findings by whether they are proved, suspected or notes, each in the order of the diagnosis."""

    proved: tuple[Finding, ...]  # these change the exit code
    suspected: tuple[Finding, ...]
    notes: tuple[Finding, ...]


def sort_findings(diagnosis: Diagnosis) -> Sorted:
    """Separates findings that are proved, those only suspected, and those merely worth knowing."""
    rest = [one for one in diagnosis.findings if not one.counts]
    return Sorted(
        proved=tuple(one for one in diagnosis.findings if one.counts),
        suspected=tuple(one for one in rest if one.severity != "note"),
        notes=tuple(one for one in rest if one.severity == "note"),
    )


def summary_text(diagnosis: Diagnosis) -> str:
    """Returns the whole diagnosis in one sentence."""
    found = sort_findings(diagnosis)
    wrong = sum(one.severity == "wrong" for one in found.proved)
    slow = len(found.proved) - wrong
    parts = [f"{wrong} wrong"] * bool(wrong) + [f"{slow} slow"] * bool(slow)
    asides = [counted(len(found.suspected), "suspicion")] * bool(found.suspected)
    asides += [counted(len(found.notes), "note")] * bool(found.notes)
    nothing = "Nothing wrong was found as far as the script got" if diagnosis.failure else "Nothing wrong was found"
    head = f"{', '.join(parts)} found" if parts else nothing
    checks = f"{counted(len(diagnosis.passed), 'check')} passed, {len(diagnosis.unchecked)} could not be made"
    return f"{', '.join([head, *asides])}; {checks}."


def observed(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Returns what the diagnosis is based on: `2 ranks`, `40 steps`, `3.1 s`."""
    return counted(diagnosis.ranks, "rank"), counted(diagnosis.steps, "step"), f"{three_digits(diagnosis.seconds)} s"


def verdict_text(finding: Finding) -> str:
    """Returns the severity, with a question mark if it is not proved."""
    return f"{finding.severity}?" if finding.proof == "suspected" else finding.severity


def sure_text(finding: Finding) -> str:
    """Returns how sure the finding is: by what proof, on how many steps, on which ranks."""
    proof = {
        "observed": "observed",
        "replayed": "shown by running it again with the fix",
        "suspected": "suspected, not proved;" if finding.steps_seen else "suspected, not proved",
    }[finding.proof]
    looked = "looked at in" if finding.proof == "suspected" else "in"
    steps = [f"{looked} {counted(finding.steps_seen, 'step')}"] if finding.steps_seen else []
    ranks = [f"on {named_ranks(finding.ranks, small=True)}"] if finding.ranks else []
    return " ".join([proof, *steps, *ranks])


def price_text(price: Price) -> str:
    """Returns the price with its interval, what it is a price of, and how it is known."""
    interval = ""
    within = price.interval
    if within is not None:
        level = level_text(within.level)
        interval = f" ({level}: {_amount(price, within.low)} to {_amount(price, within.high)})"
    return f"{_amount(price, price.value, unit=True)}{interval}: {price.of}; {price.how}"


def _amount(price: Price, value: float, unit: bool = False) -> str:
    if price.unit == "bytes":
        return bytes_text(value)
    if price.unit == "share":
        return f"{value * 100:.3g} %"
    if price.unit == "times":
        return f"{value:.4g} times" if unit else f"{value:.4g}"
    number = three_digits(value) if price.unit == "ms per step" else f"{value:.4g}"
    return f"{number} {price.unit}" if unit else number


def root_of(script: Path) -> Path:
    """Returns the folder that paths are relative to: the script's repository, else the current folder, else its own."""
    folder = script.absolute().parent
    for parent in (folder, *folder.parents):
        if (parent / ".git").exists():
            return parent
    here = Path.cwd()
    return here if folder.is_relative_to(here) else folder


def relative(file: str, root: Path) -> str:
    """Returns the path relative to the root if it is below it, with forward slashes."""
    path = Path(file)
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()


def place_text(place: PlaceRow, root: Path) -> str:
    """Returns a place as `train.py:47 in train_one_epoch`."""
    inside = "" if place.function.startswith("<") else f" in {place.function}"
    return f"{relative(place.file, root)}:{place.line}{inside}"


def source_around(place: PlaceRow, around: int = LINES_AROUND) -> tuple[SourceLine, ...]:
    """Returns the lines around a place; only the noted line if the file is gone or has changed since."""
    alone = (SourceLine(place.line, place.text),)
    lines = _lines(Path(place.file))
    if not 1 <= place.line <= len(lines) or not lines[place.line - 1].strip().startswith(place.text):
        return alone
    first, last = max(1, place.line - around), min(len(lines), place.line + around)
    return tuple(SourceLine(number, lines[number - 1]) for number in range(first, last + 1))


def _lines(file: Path) -> list[str]:
    try:
        if file.stat().st_size > MOST_BYTES:
            return []
        return file.read_bytes().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return []


def reasons(diagnosis: Diagnosis) -> dict[str, list[str]]:
    """Groups the checks that abstained by reason; if there was no step, that is the reason for all of them."""
    grouped: dict[str, list[str]] = {}
    for one in diagnosis.unchecked:
        grouped.setdefault(one.reason if diagnosis.steps else "no optimizer step was made", []).append(one.check)
    return grouped
