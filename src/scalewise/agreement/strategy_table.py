"""One script under several strategies of parallel training: a row for each, and which of them is best."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from scalewise.agreement.parity_answer import NamedCause, ParityKind
from scalewise.analysis.estimate import Estimate, propagate
from scalewise.predict.order import certainty
from scalewise.records.codec import encode
from scalewise.units import bytes_text, counted, three_digits

RowKind = Literal["measured", "abstained", "failed"]
LESS_MEMORY = 0.9  # of the fastest strategy's: a strategy that needs more than this is not worth a sentence
ALONE = "one rank"


@dataclass(frozen=True)
class StrategyParity:
    """The answer to whether the ranks computed what one rank computes."""

    kind: ParityKind
    sentence: str
    step: int | None = None  # from which on they part, counted from 1
    roundings: float | None = None  # by which the furthest tensor is apart
    cause: NamedCause | None = None


@dataclass(frozen=True)
class StrategyRow:
    """One strategy: what was measured of it, or why there is nothing."""

    name: str
    change: str  # as `--change` takes it; empty: one rank as it is
    kind: RowKind
    reason: str = ""  # why it cannot be applied, or how it failed
    ranks: int = 1
    step: Estimate | None = None  # seconds
    samples_per_second: Estimate | None = None  # of all ranks
    speedup: Estimate | None = None  # against one rank
    memory: dict[str, int] | None = None  # bytes by purpose, of the rank that holds most
    peak_bytes: int | None = None
    handed_over_bytes: float | None = None  # to other ranks by the busiest rank, per step
    exposed: Estimate | None = None  # seconds of a step that communication takes
    exposed_method: str = ""
    bubble: float | None = None  # share of a pipeline's step in which a rank waits for others
    parity: StrategyParity | None = None
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class StrategiesAnswer:
    """Everything that was found about a script under several strategies."""

    script: str
    args: tuple[str, ...]
    ranks: int
    device: str
    steps: int  # of each run
    repeats: int
    rows: tuple[StrategyRow, ...]  # one rank first, then the fastest first, then those without numbers
    notes: tuple[str, ...] = ()
    folder: str = ""
    seconds: float = 0.0

    @property
    def applied(self) -> tuple[StrategyRow, ...]:
        """The strategies that have numbers."""
        return tuple(row for row in self.rows if row.change and row.kind == "measured")

    @property
    def sentences(self) -> tuple[str, ...]:
        """The verdict: which is best here and why."""
        return tuple(_sentences(self))

    def as_json(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return encode(self) | {"verdict": list(self.sentences)}


def ordered(rows: Sequence[StrategyRow]) -> tuple[StrategyRow, ...]:
    """One rank first, then those that were measured, the fastest first, then the others as they came."""

    def place(row: StrategyRow) -> tuple[int, float]:
        if not row.change:
            return 0, 0.0
        if row.samples_per_second is not None:
            return 1, -row.samples_per_second.value
        return (2 if row.kind == "failed" else 3), 0.0

    return tuple(sorted(rows, key=place))


def speedup_over(base: StrategyRow, seconds: Estimate | None) -> Estimate | None:
    """Returns how many times faster a step is than that of one rank, which has the same batch."""
    if base.step is None or seconds is None:
        return None
    return propagate(lambda one, other: one / other, base.step, seconds.at(base.step.level), method="ratio of steps")


def _sentences(answer: StrategiesAnswer) -> list[str]:
    measured = [row for row in answer.rows if row.change and row.samples_per_second is not None]
    base = next((row for row in answer.rows if not row.change), None)
    ranks = counted(answer.ranks, "rank")
    if not measured:
        applied = "could be applied" if all(row.kind == "abstained" for row in answer.rows if row.change) else "ended"
        return [f"No strategy {applied} on {ranks}; the reasons are in the table."]
    best, *others = measured
    told = [f"{best.name} is the fastest of {len(measured)} on {ranks}{_against(best, base)}{_surely(best, others)}."]
    if best.speedup is not None and best.speedup.value < 1:
        told.append(f"One rank alone is faster than {ranks} of any strategy.")
    told += _about_parity(best, measured)
    told += _about_memory(best, others, base)
    return told


def _against(best: StrategyRow, base: StrategyRow | None) -> str:
    if best.speedup is None:
        return ""
    low, high = (three_digits(end) for end in (best.speedup.low, best.speedup.high))
    text = f": {three_digits(best.speedup.value)} times one rank ({low} to {high})"
    exposed = best.exposed
    if exposed is not None and best.step is not None and exposed.value > 0:
        text += f", {min(1.0, exposed.value / best.step.value):.0%} of its step is communication".replace("%", " %")
    return text


def _surely(best: StrategyRow, others: Sequence[StrategyRow]) -> str:
    if not others or best.samples_per_second is None or others[0].samples_per_second is None:
        return ""
    next_one = others[0].samples_per_second
    by = best.samples_per_second.value / next_one.value
    sure = certainty(best.samples_per_second, next_one.at(best.samples_per_second.level))
    return f"; {three_digits(by)} times {others[0].name}, an order that is certain with {100 * sure:.0f} %"


def _about_parity(best: StrategyRow, measured: Sequence[StrategyRow]) -> list[str]:
    found = best.parity
    apart = [row.name for row in measured if row.parity is not None and row.parity.kind == "differs"]
    if found is not None and found.kind == "differs":
        why = f": {found.cause.sentence}" if found.cause is not None else ""
        return [f"{best.name} does not compute what one rank computes{why}."]
    if apart:
        return [f"Not what one rank computes: {', '.join(apart)}."]
    known = [row for row in measured if row.parity is not None]
    if known and all(row.parity is not None and row.parity.kind == "same" for row in known):
        each = "It computes" if len(known) == 1 else f"All {len(known)} compute"
        return [f"{each} what one rank computes, up to rounding."]
    return []


def _about_memory(best: StrategyRow, others: Sequence[StrategyRow], base: StrategyRow | None) -> list[str]:
    known = [row for row in others if row.peak_bytes]
    if not best.peak_bytes or not known:
        return []
    least = min(known, key=lambda row: row.peak_bytes or 0)
    if least.peak_bytes is None or least.peak_bytes > LESS_MEMORY * best.peak_bytes:
        return []
    own = f"{bytes_text(least.peak_bytes)} of a rank where {best.name} needs {bytes_text(best.peak_bytes)}"
    slower = ""
    if least.step is not None and best.step is not None:
        slower = f", and its step is {three_digits(least.step.value / best.step.value)} times as long"
    return [f"{least.name} needs the least memory: {own}{slower}."]
