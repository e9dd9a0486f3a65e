"""H2.3: where time and memory come from, and the effective batch."""

from scalewise.analysis.estimate import Estimate
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework2 import h2_3_batch, h2_3_memory, h2_3_time
from scalewise.explain.homework2.codes import CODES, NAMES
from scalewise.explain.homework2.h2_3_memory import code_parts
from scalewise.explain.homework2.h2_3_time import Halves, Stage, halves_of, stages_of
from scalewise.report.cells import empty_cell, estimate_cell, text_cell
from scalewise.report.document import Bars, Block, Cell, Column, Figure, Formula, Part, Section, Table
from scalewise.report.sections.course_pieces import memory_figure

SUITES = ("homework2",)
ORDER = 30
BATCH = Formula(
    'B_"effective" = "micro-batch" times "ACCUM_STEPS" times "ranks"',
    "effective batch = micro-batch x ACCUM_STEPS x ranks",
)


def build(evidence: Evidence) -> Section:
    """The split of time, both stacks, the three answers."""
    parts = code_parts(evidence)
    bars = [(NAMES[code], parts.get(code)) for code in CODES]
    figures = [_anatomy(evidence), memory_figure("h2-memory", "Memory of a step by purpose", bars)]
    blocks: list[Block] = [time_table(evidence), *(one for one in figures if one)]
    blocks += [*h2_3_time.answers(evidence), *h2_3_memory.answers(evidence), BATCH, *h2_3_batch.answers(evidence)]
    return Section("h2-reasons", "Why they differ", tuple(blocks))


def time_table(evidence: Evidence) -> Table:
    """Each code's step as computing and synchronising, then each stage from code to code."""
    halves = [(code, halves_of(evidence, code)) for code in CODES]
    stages = stages_of(evidence)
    return Table(
        id=h2_3_time.TABLE,
        title="The step split by removing communication; the parts add up to the step",
        columns=(
            Column("", numeric=False),
            Column("Step", "ms"),
            Column("Computing", "ms"),
            Column("Synchronising", "ms"),
            Column("Computing differs by", numeric=False),
        ),
        rows=(*(_half_cells(code, found) for code, found in halves), *(_stage_cells(stage) for stage in stages)),
        notes=("Computing: the step with its all-reduces removed. Synchronising: what they add, waiting included.",),
    )


def _half_cells(code: str, found: Halves | None) -> tuple[Cell, ...]:
    if found is None:
        why = "not measured with and without communication"
        return (text_cell(NAMES[code]), *(empty_cell(why) for _ in range(4)))
    return (text_cell(NAMES[code]), *_times(found.step, found.computing, found.synchronising), text_cell(""))


def _stage_cells(stage: Stage) -> tuple[Cell, ...]:
    name = f"{NAMES[stage.before]} to {NAMES[stage.after]}"
    return (text_cell(name), *_times(stage.whole, stage.computing, stage.synchronising), text_cell(stage.cause))


def _times(step: Estimate, computing: Estimate, synchronising: Estimate) -> tuple[Cell, ...]:
    alone = synchronising.low == synchronising.high == 0
    last = None if alone else synchronising
    why = "one rank has nobody to synchronise with"
    return estimate_cell(step, 1e3), estimate_cell(computing, 1e3), estimate_cell(last, 1e3, why_empty=why)


def _anatomy(evidence: Evidence) -> Figure | None:
    known = [found for code in CODES if (found := halves_of(evidence, code))]
    if not known:
        return None
    computing = [min(max(one.computing.value, 0.0), one.step.value) for one in known]
    parts = [Part("computing", tuple(1e3 * seconds for seconds in computing))]
    if any(one.synchronising.value > 0 for one in known):
        parts.append(Part("synchronising", tuple(max(one.synchronising.value, 0.0) * 1e3 for one in known)))
    plot = Bars(
        bars=tuple(NAMES[one.code] for one in known),
        parts=tuple(parts),
        value_label="time per step (ms)",
        low=tuple(one.step.low * 1e3 for one in known),
        high=tuple(one.step.high * 1e3 for one in known),
    )
    below = any(one.synchronising.value < 0 for one in known)
    caption = "Lines are 95 % intervals of the step."
    caption += " Synchronising that came out below 0 is not drawn." if below else ""
    return Figure("h2-anatomy", "The step, computing and synchronising", caption, plot)
