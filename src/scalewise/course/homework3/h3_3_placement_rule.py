"""H3.3: the rule that assigns a layer to a device, checked against where the layers were found."""

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.inspected_run import contiguous, placement_rule
from scalewise.course.code_listings import function_listing
from scalewise.course.homework import Question
from scalewise.course.homework3.layer_placement import ALL, DEVICES, Placed, layers_cells, placed_along
from scalewise.course.page_pieces import setting
from scalewise.report.cells import count_cell
from scalewise.report.document import Answer, Block, Column, Section, Table
from scalewise.units import listed

ORDER = 30
TABLE, LISTING = "h3-3-placement", "h3-3-init"
QUESTION = Question(
    "H3.3",
    "Which rule maps the index of a layer to its GPU?",
    "Read the rule off your __init__, and check it against the table for one layer in the middle.",
)
EVEN = "i * N // depth"
ODD_DEPTH, ODD_DEVICES = 7, 5  # an example that does not divide evenly


def build(evidence: Evidence) -> Section:
    """Builds the section: the table, the modified `__init__`, the answer."""
    points = placed_along(evidence, ALL, "devices", DEVICES)
    init = function_listing(
        evidence,
        ALL,
        "LargeLinearModelMP.__init__",
        id=LISTING,
        title="The modified __init__",
        marks=("device_count()", "//"),
    )
    blocks: list[Block] = [_table(evidence, points), *([init] if init else [])]
    return Section("h3-3", "H3.3 Layers over all devices", (*blocks, _answer(points, init is not None)), labelled=False)


def rule_of(points: tuple[Placed, ...]) -> str | None:
    """Returns the one rule that gives the device of every layer, for every number of devices; None if there is none."""
    rules = {placement_rule([layer.device for layer in one.seen.layers]) for one in _several(points) if one.seen}
    return next(iter(rules)) if len(rules) == 1 else None


def shares_by_rule(depth: int, devices: int) -> list[int]:
    """Returns how many layers `i * N // depth` gives each device."""
    places = [i * devices // depth for i in range(depth)]
    return [places.count(device) for device in range(devices)]


def _several(points: tuple[Placed, ...]) -> list[Placed]:
    return [point for point in points if point.seen and point.seen.device_count > 1]


def _table(evidence: Evidence, points: tuple[Placed, ...]) -> Table:
    most = max((point.seen.device_count for point in points if point.seen), default=max(DEVICES))
    notes = []
    if rule_of(points) == EVEN:
        example = ", ".join(map(str, shares_by_rule(ODD_DEPTH, ODD_DEVICES)))
        notes.append(f"By the rule {EVEN}, {ODD_DEPTH} layers on {ODD_DEVICES} devices would lie as {example}.")
    return Table(
        id=TABLE,
        title="The layers of each device: how many, and which",
        columns=(Column("Devices N"), *(Column(f"Device {index}", numeric=False) for index in range(most))),
        rows=tuple((count_cell(point.value, mark=point.mark), *layers_cells(point, most)) for point in points),
        notes=(*notes, *(f"{point.value} devices: {point.missing}." for point in points if point.missing)),
        caption=setting(evidence, ALL, but=("STEPS",), bracket=False, inspected=True),
    )


def _answer(points: tuple[Placed, ...], listed_init: bool) -> Answer:
    found = _several(points)
    rests_on = (TABLE, *([LISTING] if listed_init else []))
    if not found:
        verdict = "This cannot be answered: no step on several devices was looked into."
        return QUESTION.without_hint(verdict, rests_on=rests_on)
    rule = rule_of(points)
    seen = [point.seen for point in found if point.seen]
    depth = len(seen[0].layers)
    numbers = listed([str(point.value) for point in found])
    if rule is None:
        broken = any(not contiguous([layer.device for layer in one.layers]) for one in seen)
        return QUESTION.without_hint(
            "No single rule explains where the layers were found.",
            why=(
                "Some device holds layers that do not follow one another, so data moves more often than it must."
                if broken
                else "Each device holds one unbroken block, but the blocks are not in even proportion."
            ),
            decided="None of the usual rules gives the measured device of every layer.",
            rests_on=rests_on,
        )
    even = rule == EVEN
    return QUESTION.answer(
        f"Layer i goes to GPU `{rule}`, with N GPUs and depth layers.",
        f"It gives the device of all {depth} layers for N = {numbers}, as they were found in a step.",
        (
            "i / depth is how far down the model the layer is, between 0 and 1; times N and rounded down, it is the"
            " GPU. So each GPU gets one unbroken block, and the blocks differ by at most one layer."
            if even
            else "Each GPU gets one unbroken block of layers."
        ),
        (
            f"Where depth is no multiple of N, // spreads the larger blocks over the GPUs: {ODD_DEPTH} layers on"
            f" {ODD_DEVICES} GPUs lie as {', '.join(map(str, shares_by_rule(ODD_DEPTH, ODD_DEVICES)))}. Unbroken blocks"
            " keep the number of copies as small as possible."
            if even
            else "Unbroken blocks keep the number of copies as small as possible."
        ),
        decided=f"`{rule}` was computed for every layer and compared with the device that holds its weights, for N ="
        f" {numbers}.",
        rests_on=rests_on,
    )
