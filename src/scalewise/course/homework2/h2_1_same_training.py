"""H2.1: the three codes, the one that is handed in, and whether it trains as Code 1 does."""

from collections.abc import Mapping

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.figures import TOLERATED_ROUNDINGS, LossCurve, loss_curve, tolerance_of
from scalewise.course.code_listings import stretch_listings
from scalewise.course.homework import Question, Told
from scalewise.course.measured_arms import Point, figures_of, missing_reason, point, usable
from scalewise.course.page_pieces import distance_series, level_series, loss_figure, setting
from scalewise.report.cells import count_cell, empty_cell, number_cell, said, text_cell
from scalewise.report.document import Answer, Block, Cell, Column, Figure, Listing, PlotSeries, Section, Table

ACCUMULATION = "practical7_accumulation"
MIXED = "practical7_amp"
BOTH = "practical5_single"
CODES = (ACCUMULATION, MIXED, BOTH)
NAMES: Mapping[str, str] = {ACCUMULATION: "Code 1", MIXED: "Code 2", BOTH: "Code 3"}
MEANS: Mapping[str, str] = {ACCUMULATION: "accumulation", MIXED: "AMP", BOTH: "accumulation + AMP"}
REMOVED = "remove_communication"
PLAIN, BFLOAT = "plain", "bfloat16"  # experiments beside the three codes: float32 DDP, and Code 3 in bfloat16
ORDER = 10
TABLE, LISTING, FIGURE = "h2-1-same-loss", "h2-1-code", "h2-1-distance"
QUESTION = Question(
    "H2.1",
    "Does Code 3 train as Code 1 does?",
    "Say where autocast and the scaler stand, and how far the losses lie from Code 1's with and without AMP.",
)
MARKS = (
    *("GradScaler(", "autocast(", "scaler.", "/ ACCUM_STEPS"),
    *("no_sync()", "+ 1) % ACCUM_STEPS == 0", "zero_grad("),  # when ranks exchange, step, and clear the gradients
)
ROUNDED = (
    f"Rounding allows {TOLERATED_ROUNDINGS} times half the last bit of the lower precision: for input, weight and"
    " output of each of the 2 layers, the loss, and what earlier steps left. A rule of thumb: over many steps roundings"
    " go up as often as down."
)


def code_point(evidence: Evidence, code: str, change: str = "none") -> Point:
    """Returns one code at the ACCUM_STEPS of the comparison."""
    return point(evidence, f"{NAMES[code]}: {MEANS[code]}", "codes", change=change, code=code)


def beside_point(evidence: Evidence, experiment: str, change: str = "none") -> Point:
    """Float32 DDP without accumulation, or Code 3 in bfloat16; folders of before these were measured have neither."""
    label = {PLAIN: "float32 DDP", BFLOAT: "Code 3 in bfloat16"}[experiment]
    return point(evidence, label, experiment, change=change)


def product_precision(one: Point) -> str:
    """Returns the precision in which products were seen to be computed, such as `float16`; empty if none was seen."""
    return one.row.precision.of_products if one.row else ""


def build(evidence: Evidence) -> Section:
    """Builds the section: the lines that were added, the distance of the losses, the answer."""
    plain, mixed = curve_between(evidence, "same-loss"), curve_between(evidence, "codes")
    title = "Code 3: AMP inside accumulation, from the scaler to the cleared gradients"
    listings = stretch_listings(evidence, "codes", MARKS, id=LISTING, title=title, code=BOTH)
    figure = _figure(evidence)
    blocks: list[Block] = [*listings, _table(evidence, plain, mixed), *([figure] if figure else [])]
    return Section("h2-1", "H2.1 Code 3", (*blocks, _answer(evidence, plain, mixed, listings, figure)), labelled=False)


def curve_between(evidence: Evidence, experiment: str) -> LossCurve | None:
    """Returns Code 3's losses beside Code 1's; rounding is tolerated with mixed precision only."""
    one, three = (figures_of(evidence, usable(evidence, experiment, code=code)) for code in (ACCUMULATION, BOTH))
    if not one or not three:
        return None
    mixed = bool(three[0].precision.autocast)
    return loss_curve(three[0].losses, one[0].losses, tolerance_of(three[0].precision) if mixed else 0.0)


def _table(evidence: Evidence, plain: LossCurve | None, mixed: LossCurve | None) -> Table:
    rows = (("Code 3 with AMP=0", plain, "same-loss"), ("Code 3", mixed, "codes"))
    return Table(
        id=TABLE,
        title="Losses of Code 3 beside those of Code 1",
        columns=(
            Column("", numeric=False),
            Column("Steps compared"),
            Column("Largest distance", "%"),
            Column("Rounding allows", "%"),
        ),
        rows=tuple(_cells(evidence, *row) for row in rows),
        notes=(ROUNDED,),
        caption=setting(evidence, "same-loss", "codes", but=("STEPS",), bracket=False),
    )


def _cells(evidence: Evidence, label: str, curve: LossCurve | None, experiment: str) -> tuple[Cell, ...]:
    if curve is None:
        why = missing_reason(evidence, experiment, code=BOTH)
        return text_cell(label), *(empty_cell(why) for _ in range(3))
    return text_cell(label), count_cell(curve.steps), _distance(curve), number_cell(curve.tolerance, 100)


def _distance(curve: LossCurve) -> Cell:
    return number_cell(curve.largest_distance, 100)


def _figure(evidence: Evidence) -> Figure | None:
    """Returns the distance of the curves from Code 1's; drawn as losses they would cover each other."""
    one = figures_of(evidence, code_point(evidence, ACCUMULATION).row)
    series: list[PlotSeries] = []
    tolerances = []
    for code in CODES[1:]:
        own = figures_of(evidence, code_point(evidence, code).row)
        found = distance_series(NAMES[code], own, one)
        if found:
            series.append(found)
            tolerances.append(tolerance_of(own[0].precision))
    if not series:
        return None
    lines = [*series, level_series("allowed by rounding", max(tolerances), series)]
    caption = "Relative to Code 1, which computes in float32; the same batch and seed."
    title = "Distance of the loss from Code 1's"
    return loss_figure(FIGURE, title, caption, lines, log_y=True, y_label="relative distance")


def _answer(
    evidence: Evidence,
    plain: LossCurve | None,
    mixed: LossCurve | None,
    listings: tuple[Listing, ...],
    figure: Figure | None,
) -> Answer:
    rests_on = (TABLE, *(one.id for one in listings), *([figure.id] if figure else []))
    known = [curve for curve in (plain, mixed) if curve]
    if not known:
        missing = f"{missing_reason(evidence, 'same-loss', code=BOTH)}; {missing_reason(evidence, 'codes', code=BOTH)}"
        return QUESTION.without_hint(f"This cannot be answered: {missing}.", rests_on=rests_on)
    right = all(curve.within for curve in known)
    verdict: Told = (
        ("Yes", "it computes the same, and only its precision is lower.")
        if right
        else ("No", "its losses differ from Code 1's by more than rounding explains.")
    )
    if right and len(known) < 2:
        verdict = "As far as it was measured, yes."
    said_plain = said_mixed = ""
    if plain is not None:
        said_plain = (
            f"With AMP=0 all {plain.steps} losses equal Code 1's bit for bit, so the accumulation is unchanged."
            if plain.same
            else f"With AMP=0 they differ by {said(_distance(plain), '%')}, so more than the precision was changed."
        )
    if mixed is not None:
        said_mixed = (
            f" With AMP they stay within {said(_distance(mixed), '%')} of them, and rounding allows"
            f" {said(number_cell(mixed.tolerance, 100), '%')}."
        )
        if not mixed.within:
            said_mixed = (
                f" With AMP they differ by {said(_distance(mixed), '%')}, more than the "
                f"{said(number_cell(mixed.tolerance, 100), '%')} that rounding allows."
            )
    return QUESTION.answer(
        verdict,
        f"{said_plain}{said_mixed}".strip(),
        (
            "autocast() wraps forward and loss of each micro-batch, scaler.scale() its backward; step and update of the"
            " scaler come once, after the last micro-batch."
        ),
        (
            "Compare losses whenever two ways of training should be the same: a missing division or a second step shows"
            " at once."
        ),
        decided=(
            f"No loss may differ with AMP=0; with AMP, by at most {TOLERATED_ROUNDINGS} roundings of its precision."
        ),
        rests_on=rests_on,
    )
