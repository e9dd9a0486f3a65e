"""H2.2b: what each ACCUM_STEPS changed in Codes 1 and 3, as observations of the table."""

from dataclasses import dataclass

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.line_fit import Line, fit_line, spread_of
from scalewise.analysis.summary import ArmRow
from scalewise.explain.arms import Contrast, change_phrase, contrast, hole, numbers_along, usable
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework2.codes import ACCUMULATION, BOTH, NAMES
from scalewise.explain.memory import SAME, change_of, parts_of, size_change_phrase
from scalewise.explain.words import bytes_phrase, seconds_phrase

EXPERIMENT = "accumulation"
ACCUM_STEPS = (4, 8, 16, 32)
CODES = (ACCUMULATION, BOTH)


@dataclass(frozen=True)
class Point:
    """One row of the table."""

    code: str
    accum_steps: int
    row: ArmRow | None
    missing: str  # why there is no row; empty otherwise
    against_first: Contrast | None  # the same code with the fewest micro-batches
    micro_batch: float | None  # samples
    observation: str


def accum_values(evidence: Evidence) -> tuple[int, ...]:
    """As they were run; the course's own where nothing was."""
    return numbers_along(evidence, EXPERIMENT, "accum", ACCUM_STEPS)


def points(evidence: Evidence) -> tuple[Point, ...]:
    """All rows, the missing ones too."""
    values = accum_values(evidence)
    return tuple(_point(evidence, code, value, values[0]) for code in CODES for value in values)


def _point(evidence: Evidence, code: str, accum: int, first: int) -> Point:
    row = usable(evidence, EXPERIMENT, code=code, accum=accum)
    if row is None:
        missing = hole(evidence, EXPERIMENT, code=code, accum=accum)
        return Point(code, accum, None, missing, None, None, missing)
    found = contrast(evidence, usable(evidence, EXPERIMENT, code=code, accum=first), row) if accum != first else None
    micro = micro_batch_of(row)
    said = [f"micro-batch {micro:g}"] if micro else []
    said += [_time_words(found, first)] if found else []
    said += [words for words in [_memory_words(evidence, code, accum, first)] if words]
    return Point(code, accum, row, "", found, micro, "; ".join(said))


def micro_batch_of(row: ArmRow) -> float | None:
    """Samples of one forward pass on one rank."""
    if row.samples_per_step is None or not row.micro_batches:
        return None
    return row.samples_per_step / row.ranks / row.micro_batches


def _time_words(found: Contrast, first: int) -> str:
    if found.verdict == "cannot tell":
        return f"{change_phrase(found)} than with {first}, which cannot be told from none"
    return f"{change_phrase(found)} than with {first}"


def _memory_words(evidence: Evidence, code: str, accum: int, first: int) -> str:
    own = parts_of(evidence, EXPERIMENT, code=code, accum=accum)
    if own is None:
        return ""
    activations = f"activations {bytes_phrase(own.most['activations'])}"
    change = change_of(parts_of(evidence, EXPERIMENT, code=code, accum=first), own)
    if accum == first or change is None:
        return activations
    if abs(change.peak_bytes or 0) <= SAME * (own.peak_bytes or 1) or change.largest in ("", "activations"):
        return activations
    return f"{activations}, {change.largest} {size_change_phrase(change.parts[change.largest])}"


def line_of(evidence: Evidence, code: str) -> Line | None:
    """Step time over ACCUM_STEPS: the slope is the price of one more micro-batch at the same global batch."""
    known = {one.accum_steps: time for one in points(evidence) if (time := _step(one, code))}
    times = list(known.values())
    return fit_line(list(known), [one.value for one in times], spread_of(times)) if len(known) > 2 else None


def _step(point: Point, code: str) -> Estimate | None:
    return point.row.step_seconds if point.row and point.code == code else None


def slope_sentence(evidence: Evidence, code: str) -> str:
    """What one more micro-batch costs; empty where there is no line."""
    line = line_of(evidence, code)
    if line is None:
        return ""
    rise = seconds_phrase(line.slope)
    name = NAMES[code]
    if line.slope.low > 0:
        return (
            f"{name}: each further micro-batch costs {rise} at the same global batch, for calls that do less work each."
        )
    if line.slope.high < 0:
        return f"{name}: each further micro-batch saves {rise.lstrip('-')} at the same global batch."
    return f"{name}: the price of a further micro-batch cannot be told from nothing ({rise})."
