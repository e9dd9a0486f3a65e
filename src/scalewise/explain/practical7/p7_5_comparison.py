"""P7.5: accumulation beside mixed precision, both against plain float32 DDP at the same global batch."""

from dataclasses import dataclass
from typing import Any

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.memory_parts import MemoryChange
from scalewise.analysis.propagate import propagate
from scalewise.analysis.summary import ArmRow
from scalewise.explain.answer import Answer, unanswered
from scalewise.explain.arms import Contrast, all_reduces, change_phrase, contrast, hole, usable
from scalewise.explain.evidence import Evidence
from scalewise.explain.memory import (
    change_of,
    memory_word,
    parts_of,
    parts_phrase,
    passing_words,
    peak_of,
    rebuilt_words,
    size_change_phrase,
)
from scalewise.explain.words import bytes_phrase, listed, number_phrase, seconds_phrase

ROW = "P7.5"
MEMORY = "Which saves more memory?"
SPEED = "Which is faster?"
COMBINED = "Can they be combined?"
TABLE = "p7-5-comparison"
BASE: tuple[str, dict[str, Any]] = ("amp", {"precision": "float32"})
ACCUMULATION: tuple[str, dict[str, Any]] = ("no-sync", {"no_sync": 1})
SAME_AS_ACCUMULATION: tuple[str, dict[str, Any]] = ("division", {"divide": 1})  # the same settings of Code 1
MIXED: tuple[str, dict[str, Any]] = ("amp", {"precision": "float16"})


@dataclass(frozen=True)
class Effect:
    """What one technique changes against plain float32 DDP; None where it was not measured."""

    name: str
    row: ArmRow | None
    time: Contrast | None
    peak_change_bytes: int | None
    base_peak_bytes: int | None
    parts: MemoryChange | None
    passing: str  # what is known of the part of the peak that lives only in passing
    all_reduces: tuple[int, int]  # count and bytes of one optimizer step
    rebuilt: str = ""  # said where DDP's rebuilding of buckets made the peak

    @property
    def memory_text(self) -> str:
        """For the table and for answers."""
        if self.peak_change_bytes is None or self.base_peak_bytes is None:
            return "not measured"
        if memory_word(self.base_peak_bytes, self.base_peak_bytes + self.peak_change_bytes) == "the same":
            return "the same peak"
        return f"{size_change_phrase(self.peak_change_bytes)} at the peak"

    @property
    def speed_text(self) -> str:
        """The same for the step."""
        if self.time is None:
            return "not measured"
        unsure = " (cannot be told from none)" if self.time.verdict == "cannot tell" else ""
        return f"{change_phrase(self.time)} a step{unsure}"

    @property
    def communication_text(self) -> str:
        """All-reduces of one optimizer step."""
        if self.row is None:
            return "not measured"
        count, size = self.all_reduces
        if not count:
            return "none (one rank)"
        micro = self.row.micro_batches
        shared = f", once for {micro:g} micro-batches" if micro and micro > 1 else ""
        alone = " (with itself: one rank)" if self.row.ranks == 1 else ""
        return f"{count:g} all-reduces of {bytes_phrase(size)} in all{shared}{alone}"


def effect_of(evidence: Evidence, name: str, place: tuple[str, dict[str, Any]]) -> Effect:
    """Of the technique measured there."""
    base = usable(evidence, BASE[0], **BASE[1])
    row = usable(evidence, place[0], **place[1])
    before, after = (peak_of(evidence, experiment, **axes) for experiment, axes in (BASE, place))
    change = after.bytes - before.bytes if before and after and before.witness == after.witness else None
    base_bytes = before.bytes if before else None
    held = [parts_of(evidence, experiment, **axes) for experiment, axes in (BASE, place)]
    parts = change_of(*held)
    if parts and parts.peak_bytes is not None and held[0]:  # the same witness as its parts, workspaces left out
        change, base_bytes = parts.peak_bytes, held[0].peak_bytes
    return Effect(
        name=name,
        row=row,
        time=contrast(evidence, base, row),
        peak_change_bytes=change,
        base_peak_bytes=base_bytes,
        parts=parts,
        passing=passing_words(parts, evidence.inspection(place[0], **place[1])),
        all_reduces=all_reduces(evidence, row) if row else (0, 0),
        rebuilt=rebuilt_words(*held),
    )


def accumulation_place(evidence: Evidence) -> tuple[str, dict[str, Any]]:
    """Code 1 on as many ranks as the base: where GPUs are few the experiments may differ in them."""
    base = usable(evidence, BASE[0], **BASE[1])
    for place in (ACCUMULATION, SAME_AS_ACCUMULATION):
        row = usable(evidence, place[0], **place[1])
        if base and row and row.ranks == base.ranks:
            return place
    return ACCUMULATION


def effects(evidence: Evidence) -> tuple[Effect, Effect]:
    """Accumulation, then mixed precision."""
    place = accumulation_place(evidence)
    return effect_of(evidence, "Accumulation", place), effect_of(evidence, "Mixed precision", MIXED)


def answers(evidence: Evidence) -> tuple[Answer, ...]:
    """To the three questions."""
    accumulation, mixed = effects(evidence)
    missing = listed(
        [hole(evidence, e, **axes) for e, axes in (BASE, ACCUMULATION, MIXED) if not usable(evidence, e, **axes)]
    )
    return (
        _memory(accumulation, mixed, missing or "memory was not seen"),
        _speed(evidence, accumulation, mixed, missing or "the arms did not do the same work"),
        _combined(evidence, accumulation, mixed, missing or "the arms did not do the same work"),
    )


def _memory(accumulation: Effect, mixed: Effect, missing: str) -> Answer:
    a, m, base = accumulation.peak_change_bytes, mixed.peak_change_bytes, accumulation.base_peak_bytes
    if a is None or m is None or base is None:
        return unanswered(ROW, MEMORY, missing)
    said = f"Against plain float32 DDP ({bytes_phrase(base)}): {_part_words(accumulation)}; {_part_words(mixed)}."
    said += accumulation.rebuilt or mixed.rebuilt
    passing = [f"{one.name.lower()}, {one.passing}" for one in (accumulation, mixed) if one.passing]
    said += f" Work in progress is, with {'; with '.join(passing)}." if passing else ""
    condition = f"peak: accumulation {size_change_phrase(a)}, mixed precision {size_change_phrase(m)}"
    if min(a, m) >= 0:
        verdict = "Neither saves memory here."
    elif memory_word(base + a, base + m) == "the same":
        verdict = "Both save the same, to within one percent."
    else:
        verdict = f"{'Accumulation' if a < m else 'Mixed precision'} saves more."
    return Answer(ROW, MEMORY, f"{verdict} {said}", condition, (TABLE,))


def _part_words(effect: Effect) -> str:
    why = f" ({parts_phrase(effect.parts)})" if effect.parts else ""
    return f"{effect.name.lower()} {effect.memory_text}{why}"


def _speed(evidence: Evidence, accumulation: Effect, mixed: Effect, missing: str) -> Answer:
    between = contrast(evidence, accumulation.row, mixed.row)
    if accumulation.time is None or mixed.time is None or between is None:
        return unanswered(ROW, SPEED, missing)
    said = f"Against plain float32 DDP: accumulation {accumulation.speed_text}, mixed precision {mixed.speed_text}."
    if between.verdict == "cannot tell":
        verdict = "Neither can be called faster than the other."
    else:
        faster = mixed if between.verdict == "faster" else accumulation
        verdict = f"{faster.name} is faster."
        if faster.time is not None and faster.time.verdict == "slower":
            verdict += " But plain float32 DDP is faster still."
    return Answer(
        ROW, SPEED, f"{verdict} {said}", f"mixed precision against accumulation: {between.condition}", (TABLE,)
    )


def _combined(evidence: Evidence, accumulation: Effect, mixed: Effect, missing: str) -> Answer:
    base = usable(evidence, BASE[0], **BASE[1])
    if base is None or base.step_seconds is None or accumulation.time is None or mixed.time is None:
        return unanswered(ROW, COMBINED, missing)
    factor = propagate(lambda a, m: (1 + a) * (1 + m), accumulation.time.change, mixed.time.change)
    expected = propagate(lambda step, times: step * times, base.step_seconds, factor)
    said = (
        f"Yes: autocast and the scaler work inside each micro-batch and leave the accumulation as it is (Code 3, "
        f"homework 2). If their effects multiply, its step would take {seconds_phrase(expected)} (predicted), "
        f"{_against_plain(factor)} the {seconds_phrase(base.step_seconds)} of plain DDP"
    )
    shared = _shared_parts(accumulation.parts, mixed.parts)
    both = f"; both change {listed(shared)}, so their effects on memory do not simply add up" if shared else ""
    condition = f"product of the two time ratios {number_phrase(factor)}, its interval above, below or across 1"
    return Answer(ROW, COMBINED, f"{said}{both}.", condition, (TABLE,))


def _against_plain(factor: Estimate) -> str:
    if factor.low > 1:
        return "more than"
    return "less than" if factor.high < 1 else "not to be told from"


def _shared_parts(a: MemoryChange | None, b: MemoryChange | None) -> list[str]:
    if a is None or b is None:
        return []
    return [name for name in a.parts if a.parts[name] and b.parts[name]]
