"""What the sections of homework 3 share: names of layers, busy shares, and the timeline of devices."""

from collections.abc import Sequence

from scalewise.analysis.inspection import Inspection
from scalewise.analysis.pipeline import Pipeline
from scalewise.records.inspection import BusyRow
from scalewise.report.document import Cell, Figure, Lane, Timeline

EMULATED_NOTE = (
    "Emulated: logical devices on one machine, with real copies at each hand-over; they share its cores or its GPU, so "
    "no speed of several devices is to be read from them."
)
MILLI = 1e-6  # nanoseconds to milliseconds


def indices_text(pipeline: Pipeline, device: str) -> str:
    """`0-2` for an unbroken block, `0, 2, 4` for others, with their number."""
    indices = [index for index, layer in enumerate(pipeline.layers) if layer.device == device]
    if not indices:
        return "none"
    unbroken = indices == list(range(indices[0], indices[-1] + 1))
    block = f"{indices[0]}–{indices[-1]}" if unbroken and len(indices) > 1 else ", ".join(map(str, indices))
    return f"{len(indices)} ({block})"


def share_cell(pipeline: Pipeline) -> Cell:
    """The busy share of every device."""
    if not pipeline.step_seconds:
        return Cell("–", mark="missing", note="no timeline was seen")
    return Cell(", ".join(f"{100 * one.busy_share:.0f}" for one in pipeline.devices), note="of the inspected step")


def timeline_figure(name: str, title: str, inspected: Inspection | None, width: float = 0.5) -> Figure | None:
    """Who worked when in the inspected step; None where it was not seen."""
    if inspected is None or not inspected.timeline:
        return None
    begin = min(row.begin_ns for row in inspected.timeline)
    devices = list(dict.fromkeys([*inspected.devices, *(row.device for row in inspected.timeline)]))
    lanes = tuple(
        Lane(device, stretches([row for row in inspected.timeline if row.device == device], begin))
        for device in devices
    )
    caption = "Every device synchronised at every layer, so longer than a plain step; the order is what counts."
    return Figure(name, title, caption, Timeline(lanes, "time in the inspected step (ms)"), width)


def stretches(rows: Sequence[BusyRow], begin_ns: int) -> tuple[tuple[float, float, str], ...]:
    """One for every layer at work."""
    found: list[tuple[float, float, str]] = []
    for row in sorted(rows, key=lambda one: one.begin_ns):
        begin, end = (row.begin_ns - begin_ns) * MILLI, (row.end_ns - begin_ns) * MILLI
        found.append((begin, end, row.phase))
    return tuple(found)
