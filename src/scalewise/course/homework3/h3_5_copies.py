"""H3.5: how often data really moves between devices, what a copy costs, and how that grows with the devices."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.inspected_run import copies_seconds
from scalewise.course.gpus import hand_over_parts, known_of
from scalewise.course.homework import Question
from scalewise.course.homework3.layer_placement import (
    ALL,
    DEVICES,
    KIB,
    Placed,
    copy_bytes,
    devices_phrase,
    placed_along,
)
from scalewise.course.page_pieces import setting
from scalewise.report.cells import count_cell, empty_cell, number_cell, said, text_cell
from scalewise.report.document import Answer, Cell, Column, Section, Table
from scalewise.units import listed

ORDER = 50
TABLE = "h3-5-transfers"
HOW_OFTEN = Question(
    "H3.5",
    "How many real transfers are there in one forward pass, with 2 and with 5 GPUs?",
    "Count the copies in forward for 2 and 5 devices, and compare them with the calls of x.to().",
)
RELATION = Question(
    "H3.5",
    "How does the number of GPUs relate to the communication?",
    "Give the number of copies as a formula of N, the size of one copy, and what share of the step they take.",
)
MICRO = 1e6
ALIKE = 1.2  # times: copies of one size that differ by less need no remark


@dataclass(frozen=True)
class Transfers:
    """The copies of one step on N devices."""

    point: Placed
    calls: int  # calls of x.to() in one forward pass
    forward: int
    backward: int
    each_bytes: float | None
    copies: tuple[float, ...]  # seconds of each copy of one step, as they were seen
    step_share: float | None  # that all copies of a step take, if each takes as long as the middle one


def build(evidence: Evidence) -> Section:
    """Builds the section: table and answers."""
    points = placed_along(evidence, ALL, "devices", DEVICES)
    found = tuple(one for one in map(transfers, points) if one is not None)
    return Section(
        "h3-5", "H3.5 Transfers", (_table(evidence, points, found), _how_often(found), _relation(found)), labelled=False
    )


def transfers(point: Placed) -> Transfers | None:
    """Returns the copies of one step; None if no step was inspected."""
    seen = point.seen
    if seen is None:
        return None
    count = seen.forward.count
    copies = copies_seconds(point.inspected) if point.inspected else ()
    one = median(copies) if copies else None
    step = point.row.step_seconds.value if point.row and point.row.step_seconds else None
    share = one * (count + seen.backward.count) / step if one is not None and step else None
    return Transfers(point, len(seen.layers), count, seen.backward.count, copy_bytes(point), copies, share)


def _table(evidence: Evidence, points: tuple[Placed, ...], found: tuple[Transfers, ...]) -> Table:
    known = {one.point.value: one for one in found}
    size = next((one.each_bytes for one in found if one.each_bytes), None)
    told = []
    gpus = known_of(evidence)
    if size and gpus and gpus.link:
        latency, wire = hand_over_parts(gpus.link, size)
        told.append(
            f"Over {gpus.link} a copy of {said(number_cell(size, 1 / KIB), 'KiB')} is predicted to take "
            f"{said(number_cell(latency + wire, MICRO), 'us')}: {said(number_cell(wire, MICRO), 'us')} by the data "
            f"sheet's bandwidth, and a latency of {said(number_cell(latency, MICRO), 'us')}, which is assumed."
        )
    return Table(
        id=TABLE,
        title="Calls of x.to() and real copies in one step",
        columns=(
            Column("Devices N"),
            Column("Calls of x.to() in forward"),
            Column("Copies in forward"),
            Column("N − 1"),
            Column("Copies in backward"),
            Column("Each", "KiB"),
            Column("Time of one", "us, median"),
            Column("Least to most", "us", numeric=False),
            Column("All copies", "% of the step"),
        ),
        rows=tuple(_cells(point, known.get(point.value)) for point in points),
        notes=(
            (
                "Time of one: the pause between two layers on different devices, less the median pause between two on"
                " the same one, in one inspected step."
            ),
            *_apart(found),
            *told,
        ),
        caption=setting(evidence, ALL, but=("STEPS",), bracket=False, inspected=True),
    )


def _cells(point: Placed, one: Transfers | None) -> tuple[Cell, ...]:
    count = count_cell(point.value, mark=point.mark)
    if one is None:
        return count, *(empty_cell("this step was not looked into") for _ in range(8))
    why_empty = "shorter than could be seen" if one.forward else "nothing is copied on one device"
    return (
        count,
        count_cell(one.calls),
        count_cell(one.forward),
        count_cell(point.value - 1),
        count_cell(one.backward),
        number_cell(one.each_bytes, 1 / KIB, why_empty=why_empty),
        number_cell(median(one.copies) if one.copies else None, MICRO, why_empty=why_empty),
        text_cell(_ends(one.copies)) if one.copies else empty_cell(why_empty),
        number_cell(one.step_share, 100, why_empty=why_empty),
    )


def _ends(copies: Sequence[float]) -> str:
    return f"{said(number_cell(max(min(copies), 0.0), MICRO))} to {said(number_cell(max(copies), MICRO))}"


def _apart(found: tuple[Transfers, ...]) -> list[str]:
    """The note on why copies of one size do not all take as long; empty if they do."""
    times = [median(one.copies) for one in found if one.copies]
    if len(times) < 2 or max(times) <= ALIKE * min(times):
        return []
    counts = listed([str(len(one.copies)) for one in found if one.copies])
    return [
        f"So few copies ({counts}) differ though their size is the same: such a pause also holds what Python does"
        " between the layers. Read them as an order of magnitude."
    ]


def _how_often(found: tuple[Transfers, ...]) -> Answer:
    several = [one for one in found if one.point.value > 1]
    if not several:
        return HOW_OFTEN.without_hint(
            "This cannot be answered: no step on several devices was looked into.", rests_on=(TABLE,)
        )
    counts = listed([f"{one.forward} with {devices_phrase(one.point.value)}" for one in several])
    calls = {one.calls for one in several}
    return HOW_OFTEN.answer(
        f"There are {counts}.",
        (
            f"`x.to(layer_device)` is called {several[0].calls} times in a pass, once before each layer."
            if len(calls) == 1
            else ""
        ),
        (
            "`.to()` copies only where the tensor lies on another device than the layer. Within a block it returns "
            "the same tensor."
        ),
        decided="Every copy of a tensor from one of the layers' devices to another was counted in one step.",
        rests_on=(TABLE,),
    )


def _relation(found: tuple[Transfers, ...]) -> Answer:
    several = [one for one in found if one.point.value > 1]
    if not several:
        return RELATION.without_hint(
            "This cannot be answered: no step on several devices was looked into.", rests_on=(TABLE,)
        )
    linear = all(one.forward == one.point.value - 1 for one in several)
    back = all(one.forward == one.backward for one in several)
    most = several[-1]
    size = said(number_cell(most.each_bytes, 1 / KIB), "KiB") if most.each_bytes else ""
    cost = ""
    if most.step_share is not None:
        share = said(number_cell(most.step_share, 100), "%")
        cost = f" Here the copies of a step on {most.point.value} devices take about {share} of it."
    if not linear:
        return RELATION.without_hint(
            "It is more than N − 1 copies, because a device holds layers that do not follow one another.",
            f"With {most.point.value} devices there are {most.forward} copies in forward.{cost}",
            "Every border between two layers on different devices is a copy.",
            "Give each device one unbroken block: then there are N − 1 borders.",
            decided="Copies in forward against N − 1.",
            rests_on=(TABLE,),
        )
    return RELATION.answer(
        ("It grows linearly: N devices make N − 1 copies in forward" + (", and as many in backward." if back else ".")),
        f"Each carries one activation, {size}.{cost}",
        (
            "There is one copy at every border between two blocks, whatever DEPTH is. Its size is batch × DIM, so it"
            " does not depend on the number of devices either."
        ),
        "More devices add communication and no speed. It pays only where the model does not fit on fewer.",
        decided="Copies in forward equal N − 1 for every N that was run.",
        rests_on=(TABLE,),
    )
