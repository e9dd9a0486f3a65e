"""H2.3, memory: what accumulation and mixed precision each change in it, part by part."""

from scalewise.analysis.memory_parts import MemoryChange, MemoryParts
from scalewise.explain.answer import Answer, unanswered
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework2.codes import ACCUMULATION, BOTH, CODES, MIXED, NAMES
from scalewise.explain.homework2.h2_2_accumulation import EXPERIMENT, accum_values
from scalewise.explain.memory import change_of, parts_of, parts_phrase, passing_words, size_change_phrase
from scalewise.explain.words import bytes_phrase, listed

ROW = "H2.3"
QUESTION = "Memory: how do accumulation and AMP act differently?"
TABLE = "h2-memory"


def code_parts(evidence: Evidence) -> dict[str, MemoryParts]:
    """Of every code that was inspected."""
    found = {code: parts_of(evidence, "codes", code=code) for code in CODES}
    return {code: parts for code, parts in found.items() if parts}


def answers(evidence: Evidence) -> tuple[Answer, ...]:
    """One answer: AMP by Code 1 against 3, accumulation by Code 2 against 3, and by ACCUM_STEPS."""
    parts = code_parts(evidence)
    amp = change_of(parts.get(ACCUMULATION), parts.get(BOTH))
    accumulation = change_of(parts.get(MIXED), parts.get(BOTH))
    if amp is None and accumulation is None:
        missing = listed([NAMES[code] for code in CODES if code not in parts])
        return (unanswered(ROW, QUESTION, f"memory by purpose was not seen for {missing}"),)
    said, conditions = [], []
    if amp:
        reason = _amp_reason(amp, parts[BOTH], passing_words(amp, evidence.inspection("codes", code=BOTH)))
        said.append(f"AMP (Code 1 to 3): {_peak_words(amp)}. {reason}")
        conditions.append(f"AMP: {_rule(amp)}")
    if accumulation:
        passing = passing_words(accumulation, evidence.inspection("codes", code=BOTH))
        said.append(f"Accumulation (Code 2 to 3): {_peak_words(accumulation)}. {_reason(accumulation, passing)}")
        conditions.append(f"accumulation: {_rule(accumulation)}")
    said.append(_over_accum_steps(evidence))
    return (Answer(ROW, QUESTION, " ".join(said).rstrip(), "; ".join(conditions), (TABLE,)),)


def _peak_words(change: MemoryChange) -> str:
    if change.peak_bytes is None:
        return parts_phrase(change)
    peak = size_change_phrase(change.peak_bytes) if change.peak_bytes else "no change"
    return f"{peak} at the peak, made of {parts_phrase(change)}"


def _rule(change: MemoryChange) -> str:
    names = dict.fromkeys([*([change.largest] if change.largest else []), "half-precision copies", "activations"])
    named = {name: change.parts[name] for name in names}
    said = [f"{name} {size_change_phrase(size) if size else 'unchanged'}" for name, size in named.items()]
    return ", ".join(said)


def _amp_reason(change: MemoryChange, after: MemoryParts, passing: str) -> str:
    """The copies of the weights against the activations that are half as long, where both exist at the peak."""
    copies, saved = change.parts["half-precision copies"], -change.parts["activations"]
    freed = after.most["half-precision copies"] - after.parts["half-precision copies"]
    if copies > 0 and copies > saved:
        return (
            f"Autocast keeps the float32 weights and adds half-precision copies of them ({bytes_phrase(copies)}); "
            f"shorter activations {_gave_back(saved)}. At this batch weights outweigh activations, so AMP takes memory."
        )
    if passing and change.largest == "work in progress":
        gone = f" autocast's copies of the weights ({bytes_phrase(freed)}) are freed by then" if freed > 0 else ""
        return f"The work in progress is {passing};{gone or ' no copies of the weights are among it'}."
    if saved > 0 and (change.peak_bytes or -1) < 0:
        return (
            f"The activations are shorter by {bytes_phrase(saved)}, more than the copies of the weights take "
            f"({bytes_phrase(copies)}): AMP saves memory at this batch."
        )
    return "Neither copies of the weights nor activations explain it."


def _gave_back(saved: int) -> str:
    return f"give back only {bytes_phrase(saved)}" if saved > 0 else "give nothing back"


def _reason(change: MemoryChange, passing: str) -> str:
    activations = change.parts["activations"]
    if passing and change.largest == "work in progress" and (change.peak_bytes or 0) > 0:
        shrunk = ", more than the activations of the smaller micro-batches save" if activations < 0 else ""
        return f"The work in progress is {passing}{shrunk}."
    if activations < 0 and (change.peak_bytes or 0) > 0:
        return "Only one micro-batch's activations live at a time, but that saves less than adding up gradients takes."
    if activations < 0 and change.largest == "activations":
        return "Only one micro-batch's activations live at a time; weights and gradients stay whole."
    if activations < 0:
        return f"Activations shrink with the micro-batch, but {change.largest} changed more."
    return "The activations did not shrink, so accumulation saved nothing here."


def _over_accum_steps(evidence: Evidence) -> str:
    """What the largest ACCUM_STEPS changed against the smallest."""
    values = accum_values(evidence)
    first, last = (parts_of(evidence, EXPERIMENT, code=ACCUMULATION, accum=accum) for accum in (values[0], values[-1]))
    change = change_of(first, last)
    if change is None or first is None or last is None:
        return ""
    before, after = (bytes_phrase(one.most["activations"]) for one in (first, last))
    share = first.most["activations"] / first.explained_bytes if first.explained_bytes else 0.0
    return (
        f"From ACCUM_STEPS {values[0]} to {values[-1]} Code 1 keeps {before} and {after} of activations for backward, "
        f"{100 * share:.1f} % of the peak at {values[0]}: more than that no larger ACCUM_STEPS can save."
    )
