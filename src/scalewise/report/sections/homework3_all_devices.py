"""H3.3 to H3.5: the same model over one, two and five devices."""

from scalewise.analysis.pipeline import Pipeline, pipeline_bound
from scalewise.analysis.summary import ArmRow
from scalewise.explain.arms import hole
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework3 import h3_3_placement, h3_4_devices, h3_5_transfers
from scalewise.explain.homework3.devices import ALL, DEVICES, arms_along, emulated
from scalewise.report.cells import count_cell, empty_cell, estimate_cell, mark_of, text_cell
from scalewise.report.document import Block, Cell, Column, Formula, Section, Table
from scalewise.report.sections.course_pieces import MEGABYTE
from scalewise.report.sections.homework3_pieces import EMULATED_NOTE, indices_text, share_cell, timeline_figure

SUITES = ("homework3",)
ORDER = 20
BOUND = Formula(
    'T_"pipeline" = T/N dot (m + N - 1)/m',
    "time of an ideal pipeline = T / N x (m + N - 1) / m, with N devices and m micro-batches",
)
Arms = dict[int, tuple[ArmRow | None, Pipeline | None]]


def build(evidence: Evidence) -> Section:
    """Three tables, the timeline of most devices, the answers."""
    arms: Arms = arms_along(evidence, ALL, "devices", DEVICES)
    many = max(arms)
    timeline = timeline_figure(
        "h3-4-timeline", f"One step on {many} devices", evidence.inspection(ALL, devices=many), 1.0
    )
    blocks: list[Block] = [placement_table(evidence, arms), *h3_3_placement.answers(evidence)]
    blocks += [devices_table(evidence, arms), *([timeline] if timeline else []), BOUND, *h3_4_devices.answers(evidence)]
    blocks += [transfers_table(arms), *h3_5_transfers.answers(evidence)]
    return Section("h3-all", "All devices", tuple(blocks))


def placement_table(evidence: Evidence, arms: Arms) -> Table:
    """The layers of every device."""
    most = max((pipeline.device_count for _, pipeline in arms.values() if pipeline), default=max(arms))
    rows = []
    for count, (_, pipeline) in arms.items():
        cells = [indices_text(pipeline, one.device) for one in pipeline.devices] if pipeline else []
        places = [text_cell(text) for text in cells] + [text_cell("") for _ in range(most - len(cells))]
        rows.append((_count_cell(count, pipeline), *(places if pipeline else [empty_cell("not inspected")] * most)))
    missing = [f"{hole(evidence, ALL, devices=count)}" for count, (row, _) in arms.items() if row is None]
    return Table(
        id=h3_3_placement.TABLE,
        title="The device of every layer: how many, and which",
        columns=(Column("Devices"), *(Column(f"Device {index}", numeric=False) for index in range(most))),
        rows=tuple(rows),
        notes=tuple(missing),
    )


def devices_table(evidence: Evidence, arms: Arms) -> Table:
    """Step time, memory and utilisation per device, and the ideal pipeline beside them."""
    micro = h3_4_devices.MICRO_BATCHES
    logical = any(emulated(pipeline) for _, pipeline in arms.values())
    return Table(
        id=h3_4_devices.TABLE,
        title="Step time, memory and use of each device",
        columns=(
            Column("Devices"),
            Column("Step", "ms"),
            Column("Memory", "MB", numeric=False),
            Column("Busy", "% of the step", numeric=False),
            Column("Two or more busy", "%"),
            Column("Ideal T/N", "ms"),
            Column(f"Pipeline, m={micro}", "ms"),
        ),
        rows=tuple(_device_cells(evidence, count, *arm) for count, arm in arms.items()),
        notes=(
            "Memory and busy share of each device in turn, from inspected runs.",
            *([EMULATED_NOTE] if logical else []),
        ),
        runs=tuple(row.run_names if row else () for row, _ in arms.values()),
    )


def _device_cells(evidence: Evidence, count: int, row: ArmRow | None, pipeline: Pipeline | None) -> tuple[Cell, ...]:
    why = hole(evidence, ALL, devices=count)
    step = row.step_seconds if row else None
    time = estimate_cell(step, 1e3, mark=mark_of(row, emulated=emulated(pipeline)), why_empty=why)
    if pipeline is None:
        seen: tuple[Cell, ...] = tuple(empty_cell("not inspected") for _ in range(3))
    else:
        sizes = [one.peak_bytes for one in pipeline.devices if one.peak_bytes is not None]
        memory = ", ".join(f"{size / MEGABYTE:.3g}" for size in sizes)
        together = 100 * pipeline.together_share
        seen = (text_cell(memory or "–"), share_cell(pipeline), Cell(f"{together:.1f}", together))
    if step is None:
        return (count_cell(count), time, *seen, empty_cell(why), empty_cell(why))
    bounds = (pipeline_bound(step.value, count), pipeline_bound(step.value, count, h3_4_devices.MICRO_BATCHES))
    if count == 1:
        return (count_cell(count), time, *seen, text_cell("–"), text_cell("–"))
    ideal = tuple(Cell(f"{bound * 1e3:.3g}", bound * 1e3, mark="predicted") for bound in bounds)
    return (count_cell(count), time, *seen, *ideal)


def _count_cell(count: int, pipeline: Pipeline | None) -> Cell:
    return count_cell(count, mark="emulated" if emulated(pipeline) else "measured")


def transfers_table(arms: Arms) -> Table:
    """Copies in one step, both ways."""
    rows = []
    for count, (_, pipeline) in arms.items():
        if pipeline is None:
            rows.append((count_cell(count), *(empty_cell("not inspected") for _ in range(4))))
            continue
        forward, backward = pipeline.forward, pipeline.backward
        rows.append(
            (
                _count_cell(count, pipeline),
                count_cell(forward.count),
                count_cell(count - 1),
                count_cell(backward.count),
                Cell(f"{(forward.bytes + backward.bytes) / MEGABYTE:.3g}", (forward.bytes + backward.bytes) / MEGABYTE),
            )
        )
    return Table(
        id=h3_5_transfers.TABLE,
        title="How often data really moves between devices in one step",
        columns=(
            Column("Devices N"),
            Column("Copies in forward"),
            Column("N − 1"),
            Column("Copies in backward"),
            Column("Moved in all", "MB"),
        ),
        rows=tuple(rows),
    )
