"""H3.1 and H3.2: layers on two devices, the hand-over, and step time over DEPTH."""

from scalewise.analysis.pipeline import Pipeline
from scalewise.analysis.summary import ArmRow
from scalewise.explain.arms import hole
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework3 import h3_1_hand_over, h3_2_depth
from scalewise.explain.homework3.devices import DEPTHS, TWO, arms_along, emulated
from scalewise.explain.homework3.h3_2_depth import depth_line
from scalewise.report.cells import count_cell, empty_cell, estimate_cell, mark_of, text_cell
from scalewise.report.document import Block, Cell, Column, Figure, Lines, Mark, Section, Series, Table
from scalewise.report.sections.homework3_pieces import EMULATED_NOTE, indices_text, share_cell, timeline_figure

SUITES = ("homework3",)
ORDER = 10


def build(evidence: Evidence) -> Section:
    """The table of both rows, the line of code, figures, answers."""
    arms = arms_along(evidence, TWO, "depth", DEPTHS)
    inspected = evidence.inspection(TWO, depth=min(arms))
    figures = [_over_depth(evidence, arms), timeline_figure("h3-1-timeline", f"One step, DEPTH={min(arms)}", inspected)]
    blocks: list[Block] = [layers_table(evidence, arms)]
    blocks += [*h3_1_hand_over.answers(evidence), *(one for one in figures if one), *h3_2_depth.answers(evidence)]
    return Section("h3-two", "Two devices", tuple(blocks))


def layers_table(evidence: Evidence, arms: dict[int, tuple[ArmRow | None, Pipeline | None]]) -> Table:
    """DEPTH, layers on each device, step time, busy shares."""
    notes = [hole(evidence, TWO, depth=depth) for depth, (row, _) in arms.items() if row is None]
    if any(emulated(pipeline) for _, pipeline in arms.values()):
        notes.append(EMULATED_NOTE)
    return Table(
        id=h3_2_depth.TABLE,
        title="DEPTH against step time, medians with 95 % intervals",
        columns=(
            Column("DEPTH"),
            Column("Step", "ms"),
            Column("Layers on device 0", numeric=False),
            Column("Layers on device 1", numeric=False),
            Column("Busy, devices 0 and 1", "% of the step", numeric=False),
            Column("Both busy", "%"),
        ),
        rows=tuple(_cells(evidence, depth, *arm) for depth, arm in arms.items()),
        notes=tuple(notes),
        runs=tuple(row.run_names if row else () for row, _ in arms.values()),
    )


def _cells(evidence: Evidence, depth: int, row: ArmRow | None, pipeline: Pipeline | None) -> tuple[Cell, ...]:
    mark: Mark = mark_of(row, emulated=emulated(pipeline))
    why = hole(evidence, TWO, depth=depth)
    time = estimate_cell(row.step_seconds if row else None, 1e3, mark=mark, why_empty=why)
    if pipeline is None:
        return (count_cell(depth), time, *(empty_cell("not inspected") for _ in range(4)))
    layers = [indices_text(pipeline, one.device) for one in pipeline.devices[:2]]
    layers += ["none"] * (2 - len(layers))
    return (
        count_cell(depth),
        time,
        *(text_cell(one) for one in layers),
        share_cell(pipeline),
        Cell(f"{100 * pipeline.together_share:.1f}", 100 * pipeline.together_share),
    )


def _over_depth(evidence: Evidence, arms: dict[int, tuple[ArmRow | None, Pipeline | None]]) -> Figure | None:
    known = [(float(depth), row.step_seconds) for depth, (row, _) in arms.items() if row and row.step_seconds]
    if not known:
        return None
    logical = any(emulated(pipeline) for _, pipeline in arms.values())
    measured = Series(
        "two devices",
        tuple(depth for depth, _ in known),
        tuple(time.value * 1e3 for _, time in known),
        tuple(time.low * 1e3 for _, time in known),
        tuple(time.high * 1e3 for _, time in known),
        "emulated" if logical else "measured",
    )
    line = depth_line(evidence)
    ticks = tuple(depth for depth, _ in known)
    fitted = [Series("line", ticks, tuple(line.at(x) * 1e3 for x in ticks), style="model")] if line else []
    plot = Lines("DEPTH", "time per step (ms)", (measured, *fitted), x_ticks=ticks)
    return Figure("h3-2-depth", "Step time over DEPTH", "Bars are 95 % intervals.", plot)
