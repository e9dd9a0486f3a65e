"""P7.3, the GradScaler: gradients that vanish without it, and the scale that it has to find."""

from dataclasses import dataclass

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.stability import Gradients, Stability, gradients_of, stability
from scalewise.course.captions import setting
from scalewise.course.page_pieces import loss_figure, loss_series
from scalewise.course.selected_arms import figures_of, usable
from scalewise.report.cells import empty_cell, number_cell, said, text_cell
from scalewise.report.document import Answer, Cell, Column, Figure, Table

ROW, SCALER, LOSSES = "P7.3", "p7-3-scaler", "p7-3-loss"
WHY_SCALER = "Why is GradScaler needed?"
WITHOUT = "What happens without GradScaler?"
LOST = 0.01  # share of the gradients: fewer that vanish are no reason for a scaler
PLAIN, SCALED, BARE, LARGE = "float32", "float16, GradScaler", "float16, no scaler", "float16, GradScaler, large loss"


@dataclass(frozen=True)
class ScalerRuns:
    """The runs with and without the scaler, and float32 beside them."""

    scaled: Stability | None
    bare: Stability | None  # float16 without the scaler
    reference: Stability | None  # float32
    large: Stability | None  # float16 with the scaler and a loss that is too large for its first scale
    lost: dict[str, Gradients]  # by the label of the table


def scaler_runs(evidence: Evidence) -> ScalerRuns:
    """Everything that the two answers rest on."""
    seen = {
        PLAIN: evidence.inspection("scaler-reference"),
        SCALED: evidence.inspection("scaler", scaler=1),
        BARE: evidence.inspection("scaler", scaler=0),
        LARGE: evidence.inspection("overflow"),
    }
    lost = {label: gradients_of(one.gradients) if one else None for label, one in seen.items()}
    return ScalerRuns(
        _stability(evidence, 1),
        _stability(evidence, 0),
        _stability(evidence, None),
        stability(figures_of(evidence, usable(evidence, "overflow")), None, ()),
        {label: one for label, one in lost.items() if one},
    )


def _stability(evidence: Evidence, scaler: int | None) -> Stability | None:
    """The stability of the float16 run with or without the scaler beside float32; of float32 itself for None."""
    reference = figures_of(evidence, usable(evidence, "scaler-reference"))
    if scaler is None:
        return stability(reference, None, ())
    figures = figures_of(evidence, usable(evidence, "scaler", scaler=scaler))
    inspected = evidence.inspection("scaler", scaler=scaler)
    return stability(figures, reference[0] if reference else None, inspected.gradients if inspected else ())


def scaler_table(evidence: Evidence, found: ScalerRuns) -> Table:
    """Gradients, skipped steps and scale of each run."""
    weights = [_weight(evidence, name) for name in ("scaler", "overflow")]
    large = f" (in the last row {float(weights[1]):g})" if weights[1] and found.large else ""
    return Table(
        id=SCALER,
        title="float16 with a loss so small that its gradients vanish"
        + (", and with one too large for the first scale" if found.large else ""),
        columns=(
            Column("Run", numeric=False),
            Column("Gradients that are 0", "%"),
            Column("Skipped steps"),
            Column("Scale, first and last", numeric=False),
            Column("Loss apart from float32", "% at most"),
            Column("Training", numeric=False),
        ),
        rows=(
            _stable_cells(found, PLAIN, found.reference),
            _stable_cells(found, SCALED, found.scaled),
            _stable_cells(found, BARE, found.bare),
            *([_stable_cells(found, LARGE, found.large)] if found.large else []),
        ),
        notes=(
            (f"The loss is multiplied by LOSS_WEIGHT {weights[0]}{large}, and LR by as much the other way.",)
            if weights[0]
            else ()
        ),
        caption=setting(evidence, "scaler", but=("LR",), bracket=False),
    )


def _weight(evidence: Evidence, experiment: str) -> str:
    """LOSS_WEIGHT as the runs had it; empty where none was set."""
    env = (run.spec.env for run in evidence.loaded.runs if run.spec.experiment == experiment)
    return next((one["LOSS_WEIGHT"] for one in env if "LOSS_WEIGHT" in one), "")


def _stable_cells(found: ScalerRuns, label: str, one: Stability | None) -> tuple[Cell, ...]:
    if one is None:
        return text_cell(label), *(empty_cell("it was not run") for _ in range(5))
    zeros, scales = found.lost.get(label), one.scales
    other = "this is the reference" if label == PLAIN else "its loss is weighted otherwise"
    apart = number_cell(one.curve.largest_distance, 100) if one.curve else empty_cell(other)
    return (
        text_cell(label),
        number_cell(zeros.zero_share if zeros else None, 100, why_empty="its gradients were not looked at"),
        text_cell(f"{one.skipped_steps} of {one.steps}"),
        text_cell(f"{scales[0]:g}, {scales[-1]:g}" if scales else "none"),
        apart,
        text_cell(one.word, note=one.condition),
    )


def _zeros(found: ScalerRuns, label: str) -> Cell:
    return number_cell(found.lost[label].zero_share, 100)


def why_scaler(found: ScalerRuns) -> Answer:
    """Returns the answer on why a scaler is used: which gradients become 0 without it."""
    general = (
        "float16 has no positive number below 6e-8: smaller gradients become exactly 0, and their weights learn"
        " nothing."
    )
    if not {SCALED, BARE} <= set(found.lost):
        verdict = "To keep small gradients from becoming 0 in float16; it was not measured here."
        return Answer(ROW, WHY_SCALER, verdict, rests_on=(SCALER,))
    bare, scaled = _zeros(found, BARE), _zeros(found, SCALED)
    rescued = ((bare.number or 0) - (scaled.number or 0)) / 100 > LOST
    natural = ""
    if PLAIN in found.lost:
        natural = f" In float32 {said(_zeros(found, PLAIN), '%')} are 0 as well: units that ReLU has switched off."
    return Answer(
        ROW,
        WHY_SCALER,
        verdict=(
            "Because small gradients become 0 in float16, and the scaler keeps them."
            if rescued
            else "To keep small gradients from becoming 0; these gradients are large enough without it."
        ),
        number=f"{said(bare, '%')} of the gradients are 0 without it, {said(scaled, '%')} with it.{natural}",
        why=(
            "The scaler multiplies the loss, so all gradients grow by as much before they are rounded to float16; it"
            " divides them again, in float32, before the optimizer uses them."
        ),
        practice="bfloat16 has the range of float32 and needs no scaler.",
        decided=f"{general} A difference of more than {100 * LOST:.0f} percentage point counts as kept.",
        rests_on=(SCALER,),
        hint="Compare the share of gradients that are 0 with and without the scaler, and with float32.",
    )


def without_scaler(found: ScalerRuns) -> Answer:
    """Returns the answer on what float16 alone does to the training, and why the scale is not a fixed one."""
    bare, scaled = found.bare, found.scaled
    if bare is None or scaled is None or bare.curve is None or scaled.curve is None:
        return Answer(ROW, WITHOUT, "This cannot be answered: one of the two runs is missing.", rests_on=(SCALER,))
    apart = number_cell(bare.curve.largest_distance, 100)
    near = number_cell(scaled.curve.largest_distance, 100)
    untrained = bare.word == "not trained"
    worse = untrained or not bare.curve.within
    return Answer(
        ROW,
        WITHOUT,
        verdict=(
            "The model learns little or nothing: its loss stays far from that of float32."
            if untrained
            else "The training drifts: its loss leaves that of float32 by more than rounding explains."
            if worse
            else "With these gradients it makes no difference that shows."
        ),
        number=(
            f"The loss differs from float32's by up to {said(apart, '%')} without the scaler, by {said(near, '%')} "
            "with it."
        ),
        why=(
            "Gradients that were rounded to 0 move no weight, however large LR is."
            if worse
            else "Few gradients are so small that float16 loses them."
        ),
        practice=f"Use the scaler with float16, and let it choose its scale.{_dynamic(found)}",
        decided=f"Without: {bare.condition}. With: {scaled.condition}.",
        rests_on=(SCALER, LOSSES),
        hint="Compare how far the losses with and without the scaler differ from those of float32.",
    )


def _dynamic(found: ScalerRuns) -> str:
    """A sentence on why the scale changes, as seen with a loss that is too large for the first scale."""
    why = " A fixed scale fits one loss only:"
    large = found.large
    if large is None or not large.skipped_steps or len(large.scales) < 2:
        return f"{why} where gradients overflow, it skips the step and halves its scale, and later tries a larger one."
    return (
        f"{why} with a much larger one gradients overflow at {large.scales[0]:g}; the scaler skipped"
        f" {large.skipped_steps} of {large.steps} steps and halved its scale each time, to {large.scales[-1]:g}."
    )


def losses(evidence: Evidence) -> Figure | None:
    """Returns the figure of the losses with and without the scaler, and of float32."""
    places = ((PLAIN, "scaler-reference", None), (SCALED, "scaler", 1), ("no scaler", "scaler", 0))
    series = []
    for label, name, scaler in places:
        row = usable(evidence, name) if scaler is None else usable(evidence, name, scaler=scaler)
        series.append(loss_series(label, figures_of(evidence, row)))
    caption = "The same batch, seed and weight of the loss; float32 shows how it should fall."
    return loss_figure(LOSSES, "Loss with and without GradScaler", caption, series)
