"""H3.1: how many layers each of two devices has, and the line of forward() at which data moves."""

from pathlib import Path

from scalewise.analysis.evidence import Evidence
from scalewise.course.code_listings import function_listing
from scalewise.course.homework import Question
from scalewise.course.homework3.layer_placement import (
    DEPTHS,
    EMULATED,
    KIB,
    TWO,
    Placed,
    copy_bytes,
    layers_cells,
    placed_along,
)
from scalewise.course.page_pieces import setting
from scalewise.report.cells import count_cell, empty_cell, number_cell, said
from scalewise.report.document import Answer, Block, Cell, Column, Listing, Section, Table
from scalewise.units import listed

ORDER = 10
TABLE, LISTING = "h3-1-layers", "h3-1-forward"
HOW_MANY = Question(
    "H3.1",
    "How many layers are on GPU 0, and how many on GPU 1?",
    "Count the layers of each device for one DEPTH, and name the rule in __init__ that puts them there.",
)
WHERE = Question(
    "H3.1",
    "At which point of forward() does the data move?",
    "Name the line of forward(), say how often it runs and how often it really copies.",
)


def build(evidence: Evidence) -> Section:
    """Builds the section: the table, the lines of forward(), the answers."""
    points = placed_along(evidence, TWO, "depth", DEPTHS)
    forward = function_listing(
        evidence,
        TWO,
        "LargeLinearModelMP.forward",
        id=LISTING,
        title="forward(), with the line that moves the data",
        marks=(".to(layer_device)",),
    )
    first = next((point for point in points if point.seen), None)
    blocks: list[Block] = [_table(evidence, points), *([forward] if forward else [])]
    return Section("h3-1", "H3.1 Two devices", (*blocks, _how_many(first), _where(first, forward)), labelled=False)


def _table(evidence: Evidence, points: tuple[Placed, ...]) -> Table:
    emulated = any(point.mark == "emulated" for point in points)
    return Table(
        id=TABLE,
        title="Layers on each device: how many, and which",
        columns=(
            Column("DEPTH"),
            Column("Layers on device 0", numeric=False),
            Column("Layers on device 1", numeric=False),
            Column("Copies in forward"),
            Column("Each", "KiB"),
        ),
        rows=tuple(_cells(point) for point in points),
        notes=(EMULATED,) if emulated else (),
        caption=setting(evidence, TWO, but=("DEPTH", "STEPS"), bracket=False, inspected=True),
        runs=tuple(point.row.run_names if point.row else () for point in points),
    )


def _cells(point: Placed) -> tuple[Cell, ...]:
    copies = count_cell(point.seen.forward.count) if point.seen else empty_cell(point.missing)
    return count_cell(point.value, mark=point.mark), *layers_cells(point, 2), copies, _copy_cell(point)


def _copy_cell(point: Placed) -> Cell:
    return number_cell(copy_bytes(point), 1 / KIB, why_empty="nothing was copied")


def _how_many(point: Placed | None) -> Answer:
    if point is None or point.seen is None:
        return HOW_MANY.without_hint(
            "This cannot be answered: no step on two devices was looked into.", rests_on=(TABLE,)
        )
    counts = [len(one.layers) for one in point.seen.devices]
    even = max(counts) - min(counts) <= 1
    shares = listed([f"{count} on device {index}" for index, count in enumerate(counts)])
    return HOW_MANY.answer(
        f"{'Half of them on each' if even else 'Not the same number'}: with DEPTH={point.value}, {shares}.",
        why="The rule `if i < depth // 2` in `__init__` puts the first half of the layers on GPU 0 and the rest on"
        " GPU 1.",
        practice="With an odd DEPTH, GPU 1 gets the extra layer, because // rounds down.",
        decided="Counted: the device on which each layer's weights were found in a step.",
        rests_on=(TABLE,),
    )


def _where(point: Placed | None, forward: Listing | None) -> Answer:
    rests_on = (TABLE, *([forward.id] if forward else []))
    if point is None or point.seen is None or not point.seen.hand_overs:
        verdict = "No line of the script moved data between the layers." if point else "No step was looked into."
        return WHERE.without_hint(verdict, rests_on=rests_on)
    lines = listed([f"line {one.line} of {Path(one.file).name}" for one in point.seen.hand_overs])
    text = point.seen.hand_overs[0].text.split("  #")[0] or "x = x.to(layer_device)"
    copies = point.seen.forward.count
    size = f" The copy carries one activation, {said(_copy_cell(point), 'KiB')}." if copies else ""
    last = len(point.seen.devices[0].layers) - 1
    return WHERE.answer(
        f"At `{text}`, {lines}.",
        (
            f"It runs before each of the {point.value} layers, but copies only"
            f" {'once' if copies == 1 else f'{copies} times'} in a forward pass: after layer {last}, where the next"
            " layer is on the other device."
            if copies and len(point.seen.devices) > 1
            else ""
        ),
        f"`.to()` returns the same tensor where it already lies on that device.{size}",
        "In backward the gradient takes the same way back, without a line of its own: autograd reverses the copy.",
        decided=f"The lines of the script from which a tensor was copied between the layers' devices: {lines}.",
        rests_on=rests_on,
    )
