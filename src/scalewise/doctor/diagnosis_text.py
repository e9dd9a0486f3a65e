"""Puts a diagnosis into words and places, for its document and for SARIF."""

from dataclasses import dataclass
from pathlib import Path

from scalewise.analysis.estimate import level_text
from scalewise.doctor.finding import Diagnosis, Finding, Price
from scalewise.records.examination import PlaceRow
from scalewise.units import bytes_text, counted, named_ranks, three_digits

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
