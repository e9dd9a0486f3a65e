"""H2.3, memory: the peak of each code by purpose, and what accumulation and AMP take away and add."""

from dataclasses import dataclass

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.memory_use import MemoryParts, memory_change
from scalewise.course.homework import Question
from scalewise.course.homework2.h2_1_same_training import ACCUMULATION, BOTH, CODES, MIXED, NAMES, PLAIN
from scalewise.course.measured_arms import MEGABYTE, SAME, Sign, memory_sign, parts_of
from scalewise.course.page_pieces import setting
from scalewise.report.cells import empty_cell, number_cell, said, text_cell
from scalewise.report.document import Answer, Block, Cell, Column, Table
from scalewise.units import listed, with_capital

MEMORY_TABLE = "h2-3-memory"
QUESTION = Question(
    "H2.3",
    "How do accumulation and AMP act on memory, and how do they differ?",
    "Compare the peaks, and for each technique name one part that shrinks and one that grows.",
)
COLUMNS = (
    "weights",
    "gradients",
    "activations",
    "half-precision copies",
    "DDP buckets",
    "input data",
    "work in progress",
)
FLOAT32, FLOAT16 = 4, 2  # bytes of a number
NEAR = 0.15  # of a size: a part this near to that of a tensor is that tensor


@dataclass(frozen=True)
class Effect:
    """The change of the peak by one technique."""

    name: str
    told: str  # which rows were compared
    before: MemoryParts
    after: MemoryParts

    @property
    def sign(self) -> Sign:
        """The direction of the peak's change, by the one rule of all answers."""
        return memory_sign(self.before.peak_bytes, self.after.peak_bytes)


def memory_blocks(evidence: Evidence) -> list[Block]:
    """The table and its answer."""
    parts = {code: found for code in CODES if (found := parts_of(evidence, "codes", code=code))}
    plain = parts_of(evidence, PLAIN)
    return [_table(evidence, parts, plain), _answer(evidence, parts, plain)]


def _table(evidence: Evidence, parts: dict[str, MemoryParts], plain: MemoryParts | None) -> Table:
    every = [*parts.values(), *([plain] if plain else [])]
    shown = [name for name in COLUMNS if any(one.parts.get(name) for one in every)]
    first = [_cells("float32 DDP", plain, shown)] if plain else []
    return Table(
        id=MEMORY_TABLE,
        title="Memory of a step by purpose, at its peak",
        columns=(
            Column("Code", numeric=False),
            Column("Peak", "MB"),
            *(Column(with_capital(name), "MB") for name in shown),
        ),
        rows=(*first, *(_cells(NAMES[code], parts.get(code), shown) for code in CODES)),
        notes=(
            "Work in progress: tensors that live only in passing, such as a gradient before it is added to the others.",
            *_layer_note(evidence),
        ),
        caption=setting(evidence, "codes", PLAIN, but=("LR",), bracket=False, inspected=True),
    )


def _cells(name: str, one: MemoryParts | None, shown: list[str]) -> tuple[Cell, ...]:
    if one is None:
        return text_cell(name), *(empty_cell("its memory was not looked into") for _ in range(len(shown) + 1))
    return text_cell(name), peak_cell(one), *(_megabytes(one.parts[part]) for part in shown)


def peak_cell(one: MemoryParts) -> Cell:
    """The peak in megabytes."""
    return number_cell(one.peak_bytes, 1 / MEGABYTE, why_empty="the peak was not seen")


def _megabytes(size: float) -> Cell:
    return number_cell(size, 1 / MEGABYTE)


def _layer_weights(evidence: Evidence) -> int | None:
    """The number of weights in one layer of the codes' model; None if the runs do not tell."""
    found = {
        run.spec.env["DIM"]
        for run in evidence.loaded.runs
        if run.spec.experiment == "codes" and run.spec.env.get("DIM", "").isdecimal()
    }
    return int(next(iter(found))) ** 2 if len(found) == 1 else None


def _layer_note(evidence: Evidence) -> tuple[str, ...]:
    weights = _layer_weights(evidence)
    if not weights:
        return ()
    sizes = (said(_megabytes(weights * size), "MB") for size in (FLOAT32, FLOAT16))
    text = "The weights of one layer take {} in float32, as its gradient does, which AMP first makes in 16 bits: {}."
    return (text.format(*sizes),)


def _answer(evidence: Evidence, parts: dict[str, MemoryParts], plain: MemoryParts | None) -> Answer:
    if len(parts) < len(CODES) or any(one.peak_bytes is None for one in parts.values()):
        missing = listed([NAMES[code] for code in CODES if code not in parts]) or "one of the codes"
        told = f"This cannot be answered: the memory of {missing} was not looked into."
        return QUESTION.without_hint(told, rests_on=(MEMORY_TABLE,))
    accumulation, amp = effects(parts, plain)
    return QUESTION.answer(
        _verdict(accumulation, amp),
        " ".join(_peaks(one) for one in (accumulation, amp)),
        (
            "Both act on activations: accumulation keeps those of one micro-batch at a time"
            f"{_activations(accumulation)}, AMP stores them in 16 bits{_activations(amp)}."
            f" {_added(evidence, accumulation)} {_added(evidence, amp)}"
        ),
        (
            "Activations grow with batch × DIM × DEPTH, weights and gradients with DIM² × DEPTH. So both techniques"
            " save memory only where the batch of a rank is large against DIM."
        ),
        decided=f"Peaks within {100 * SAME:.0f} % count as the same.",
        rests_on=(MEMORY_TABLE,),
    )


def effects(parts: dict[str, MemoryParts], plain: MemoryParts | None) -> tuple[Effect, Effect]:
    """The effects of accumulation and of AMP, each alone against float32 DDP; without it, on top of each other."""
    one, two, three = (parts[code] for code in (ACCUMULATION, MIXED, BOTH))
    if plain is not None and plain.peak_bytes is not None:
        return (
            Effect("accumulation", "float32 DDP to Code 1", plain, one),
            Effect("AMP", "float32 DDP to Code 2", plain, two),
        )
    return Effect("accumulation", "Code 2 to 3", two, three), Effect("AMP", "Code 1 to 3", one, three)


def _verdict(accumulation: Effect, amp: Effect) -> str:
    return {
        ("less", "less"): "Both save memory.",
        ("more", "more"): "Against the sheet, neither saves memory at this size: both add more than they take away.",
        ("less", "more"): "AMP saves memory, accumulation adds some.",
        ("more", "less"): "Accumulation saves memory, AMP adds some.",
        ("same", "same"): "At this size neither changes the peak.",
    }.get((amp.sign, accumulation.sign), f"AMP needs {_word(amp.sign)}, accumulation {_word(accumulation.sign)}.")


def _word(sign: Sign) -> str:
    return "as much memory" if sign == "same" else f"{sign} memory"


def _peaks(one: Effect) -> str:
    before, after = said(peak_cell(one.before), "MB"), said(peak_cell(one.after), "MB")
    name = f"{with_capital(one.name)} ({one.told})"
    if one.sign == "same":
        return f"{name}: the peak stays at {before}."
    return f"{name}: the peak goes from {before} to {after}."


def _activations(one: Effect) -> str:
    """A phrase on the activations at the peak, before and after: ` (0.0655 to 0.0328 MB at the peak)`."""
    before, after = (_megabytes(each.parts["activations"]) for each in (one.before, one.after))
    return f" ({said(before)} to {said(after, 'MB')} at the peak)"


def _added(evidence: Evidence, one: Effect) -> str:
    """The part of the peak that grew most, and what it is."""
    change = memory_change(one.before, one.after)
    name = max(change.parts, key=lambda part: change.parts[part])
    grown = change.parts[name]
    if grown <= SAME * (one.before.peak_bytes or 1):
        return f"{with_capital(one.name)} adds nothing worth a word."
    before, after = (_megabytes(each.parts[name]) for each in (one.before, one.after))
    sizes = f"from {said(before)} to {said(after, 'MB')}"
    told = f"What {one.name} adds is {name}, {sizes}"
    weights = _layer_weights(evidence)
    if weights and name == "work in progress":
        if one.name == "AMP" and abs(grown / (weights * FLOAT16) - 1) <= NEAR:
            return f"{told}: one layer's gradient in 16 bits, while it is copied to float32."
        if one.name == "accumulation" and abs(grown / (weights * FLOAT32) - 1) <= NEAR:
            return f"{told}: one layer's gradient, before it is added to the sum."
    if name == "half-precision copies":
        return f"{told}: autocast's copies of the weights."
    return f"{told}."
