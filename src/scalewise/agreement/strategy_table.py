"""One script under several strategies of parallel training: a row for each, and which of them is best."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from scalewise.agreement.parity_answer import NamedCause, ParityKind
from scalewise.analysis.estimate import Estimate, propagate
from scalewise.predict.order import certainty
from scalewise.records.codec import encode
from scalewise.units import bytes_text, counted, three_digits, with_capital

RowKind = Literal["measured", "abstained", "failed"]
SURE = 0.9  # below it, an order is told as not known
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
    sent_bytes: float | None = None  # by one rank to others, per step, by algorithms that send least
    exposed: Estimate | None = None  # seconds of a step that communication takes
    exposed_method: str = ""
    bubble: float | None = None  # share of a pipeline's step in which a rank waits for others
    parity: StrategyParity | None = None
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class PredictedRow:
    """One strategy at a number of ranks that are not here."""

    name: str
    change: str
    ranks: int
    reason: str = ""  # why there is no prediction; empty: there is one
    step: Estimate | None = None  # seconds
    samples_per_second: Estimate | None = None
    bound: str = ""  # by what a step is held up
    peak_bytes: int | None = None  # of the rank that was rehearsed
    fits: bool | None = None  # in the memory that was asked about; None: not known
    guesses: tuple[str, ...] = ()


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
    predicted: tuple[PredictedRow, ...] = ()
    link: str = ""  # over which ranks are predicted
    memory_bytes: float | None = None  # of a device there
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


def ring_bytes(kind: str, size_bytes: float, ranks: int) -> float:
    """Returns the bytes that a rank sends on average for a collective around a ring.

    A run counts the whole message of a collective, but what one rank keeps of a reduce-scatter.
    """
    shares = {"all_reduce": 2 / ranks, "reduce_scatter": 1.0, "recv": 0.0, "send": 1.0, "batch_isend_irecv": 1.0}
    by_others = 1.0 if kind in ("recv", "send", "batch_isend_irecv") else ranks - 1
    return size_bytes * by_others * shares.get(kind, 1 / ranks)


def _sentences(answer: StrategiesAnswer) -> list[str]:
    told = list(_about_measured(answer)) if answer.ranks > 1 else []
    for ranks in sorted({row.ranks for row in answer.predicted}):
        told.append(
            _about_predicted([row for row in answer.predicted if row.ranks == ranks], ranks, answer.memory_bytes)
        )
    return told


def _about_measured(answer: StrategiesAnswer) -> Iterator[str]:
    ranks = counted(answer.ranks, "rank")
    if not answer.applied:
        ended = "could be applied" if all(row.kind == "abstained" for row in answer.rows if row.change) else "ended"
        yield f"No strategy {ended} on {ranks}; the reasons are in the table."
        return
    best, *others = answer.applied
    if best.speedup is not None and best.speedup.high < 1:
        yield f"One rank alone is faster than {ranks} under any strategy."
    yield f"{_first(best, others, ranks)}{_against(best)}."
    yield from _about_parity(best, answer.applied)
    yield from _about_memory(best, others)


def _first(best: StrategyRow, others: Sequence[StrategyRow], ranks: str) -> str:
    """Says which is the fastest, or that it cannot be told, and how sure that is."""
    if not others or best.samples_per_second is None or others[0].samples_per_second is None:
        return f"{best.name} is the only strategy with numbers on {ranks}"
    sure = certainty(best.samples_per_second, others[0].samples_per_second.at(best.samples_per_second.level))
    by = three_digits(best.samples_per_second.value / others[0].samples_per_second.value)
    of = f"of {len(others) + 1} strategies on {ranks}"
    if sure < SURE:
        either = f"{best.name} or {others[0].name}"
        return f"Cannot be told which is the fastest {of}: {either} ({_sure(sure)}). {best.name}"
    return f"{best.name} is the fastest {of}, {by} times {others[0].name} ({_sure(sure)})"


def _sure(share: float) -> str:
    return "more than 99 % sure" if share > 0.99 else f"{100 * share:.0f} % sure"


def _against(best: StrategyRow) -> str:
    found = best.speedup
    if found is None:
        return ""
    low, high = (three_digits(end) for end in (found.low, found.high))
    if found.low < 1 < found.high:
        text = f": whether it beats one rank cannot be told ({three_digits(found.value)} times, {low} to {high})"
    else:
        text = f": {three_digits(found.value)} times one rank ({low} to {high})"
    exposed = best.exposed
    if exposed is not None and best.step is not None and exposed.low > 0:
        text += f"; {100 * min(1.0, exposed.value / best.step.value):.0f} % of its step is communication"
    return text


def _about_predicted(rows: Sequence[PredictedRow], ranks: int, memory_bytes: float | None) -> str:
    on = f"On {counted(ranks, 'rank')} (predicted)"
    known = sorted((row for row in rows if row.step is not None), key=lambda row: row.step.value if row.step else 0.0)
    if not known:
        return f"{on}: nothing can be predicted; the reasons are in the table."
    fitting = [row for row in known if row.fits is not False]
    room = f" {bytes_text(memory_bytes)}" if memory_bytes else ""
    if not fitting:
        return f"{on}: no strategy fits in{room} of a device."
    best, *others = fitting
    left = f"; {len(known) - len(fitting)} of {len(known)} do not fit in{room}" if len(known) > len(fitting) else ""
    if not others or best.step is None or others[0].step is None:
        return f"{on}: {best.name} is the only one{' that fits' if left else ''}{left}."
    sure = certainty(others[0].step, best.step)
    by = three_digits(others[0].step.value / best.step.value)
    if sure < SURE:
        either = f"{best.name} or {others[0].name}"
        return f"{on}: cannot be told which is the fastest: {either} ({_sure(sure)}){left}."
    return f"{on}: {best.name} is the fastest, {by} times {others[0].name} ({_sure(sure)}){left}."


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
        each = {1: "It computes", 2: "Both compute"}.get(len(known), f"All {len(known)} compute")
        return [f"{each} what one rank computes, up to rounding."]
    return []


def _about_memory(best: StrategyRow, others: Sequence[StrategyRow]) -> list[str]:
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
    return [f"{with_capital(least.name)} needs the least memory: {own}{slower}."]
