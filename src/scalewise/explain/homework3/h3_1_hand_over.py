"""H3.1: how many layers each device holds, and the line of forward() at which data moves."""

from pathlib import Path

from scalewise.analysis.pipeline import HandOver, Pipeline
from scalewise.explain.answer import Answer, unanswered
from scalewise.explain.arms import hole
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework3.devices import DEPTHS, TWO, arms_along, layers_phrase
from scalewise.explain.words import bytes_phrase, listed

ROW = "H3.1"
LAYERS = "How many layers lie on each device?"
WHERE = "Where in forward() is the data handed over?"
TABLE = "h3-2-depth"


def answers(evidence: Evidence) -> tuple[Answer, ...]:
    """To both questions, from the smallest depth that was inspected."""
    found = first_pipeline(evidence)
    if found is None:
        missing = f"{hole(evidence, TWO)} under inspection"
        return unanswered(ROW, LAYERS, missing), unanswered(ROW, WHERE, missing)
    depth, pipeline = found
    return _layers(depth, pipeline), _where(pipeline)


def first_pipeline(evidence: Evidence) -> tuple[int, Pipeline] | None:
    """(DEPTH, its inspected step) of the smallest depth that has one."""
    arms = arms_along(evidence, TWO, "depth", DEPTHS)
    return next(((depth, pipeline) for depth, (_, pipeline) in arms.items() if pipeline), None)


def _layers(depth: int, pipeline: Pipeline) -> Answer:
    counts = [len(one.layers) for one in pipeline.devices]
    even = max(counts) - min(counts) <= 1
    balance = "evenly" if even else "unevenly"
    text = f"With DEPTH={depth}: {layers_phrase(pipeline)}, so {balance}."
    rule = f"largest less smallest share {max(counts) - min(counts)} {'<=' if even else '>'} 1"
    return Answer(ROW, LAYERS, text, rule, (TABLE,))


def _where(pipeline: Pipeline) -> Answer:
    if not pipeline.hand_overs:
        copies = pipeline.forward.count
        text = f"No line of the script moved data in forward ({copies_phrase(copies)} seen in all)."
        return Answer(ROW, WHERE, text, "no copy between the layers' devices was asked for by the script", (TABLE,))
    said = [hand_over_sentence(one) for one in pipeline.hand_overs]
    pairs = ", ".join(f"{source} to {target}" for source, target in pipeline.forward.between)
    text = f"{' '.join(said)} It runs before every layer, and moves data only where the device changes: {pairs}."
    lines = listed([f"line {one.line}" for one in pipeline.hand_overs])
    rule = f"{lines} of the script asked for {copies_phrase(pipeline.forward.count)} between devices in forward"
    return Answer(ROW, WHERE, text, rule, (TABLE,))


def hand_over_sentence(found: HandOver) -> str:
    """File, line, and the line itself where it was recorded."""
    name = Path(found.file).name
    text = found.text.split("  #")[0]
    shown = f": `{text}`" if text else ""
    times = "once" if found.copies == 1 else f"{found.copies} times"
    return f"Line {found.line} of {name}{shown} copied {times} in one forward pass, {bytes_phrase(found.bytes)} in all."


def copies_phrase(count: int) -> str:
    """`1 copy`, `4 copies`."""
    return f"{count} cop{'y' if count == 1 else 'ies'}"
