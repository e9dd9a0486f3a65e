"""P7.1: why the loss is divided, why synchronisation is skipped, and what happens if no_sync() is removed."""

from collections.abc import Sequence
from dataclasses import dataclass

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.figures import ROUNDOFF, TOLERATED_ROUNDINGS, LossCurve, loss_curve
from scalewise.analysis.inspected_run import Inspection
from scalewise.course.homework import Question
from scalewise.course.measured_arms import Point, StepChange, change_between, change_cell, figures_of, point
from scalewise.course.page_pieces import anatomy_figure, loss_figure, loss_series, setting, why_lr
from scalewise.records.inspection import GradientRow
from scalewise.report.cells import count_cell, empty_cell, number_cell, said, said_with_interval, text_cell
from scalewise.report.document import Answer, Block, Cell, Column, Figure, Formula, Section, Table

ORDER = 10
TABLE = "p7-1-accumulation"
DIVIDE = Question(
    "P7.1",
    "Why is the loss divided by ACCUM_STEPS?",
    "Compare the norms of the first gradient with and without the division, and the last losses.",
)
SKIP = Question(
    "P7.1",
    "Why is the synchronisation skipped for all but the last micro-batch?",
    "Compare the bytes of a step with and without no_sync(), and say why the gradient is the same.",
)
WITHOUT = Question(
    "P7.1",
    "What happens if no_sync() is removed?",
    "Use the change of the step in percent and the number of all-reduces.",
)
EARLY = 5  # steps: a wrong gradient shows after the first update, when rounding errors are still small
EXACT = 1e-3  # relative: a ratio of gradients this close to a whole number counts as that number
FORMULA = Formula(
    "nabla 1/B sum_(i=1)^B ell_i = sum_(k=1)^A nabla (1/A dot A/B sum_(i in M_k) ell_i)",
    "gradient of the batch's mean loss = sum over A micro-batches of the gradient of (mean loss of the"
    " micro-batch) / A",
    "<mo>∇</mo><mfrac><mn>1</mn><mi>B</mi></mfrac><munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow>"
    "<mi>B</mi></munderover><msub><mi>ℓ</mi><mi>i</mi></msub><mo>=</mo><munderover><mo>∑</mo><mrow><mi>k</mi><mo>=</mo>"
    "<mn>1</mn></mrow><mi>A</mi></munderover><mo>∇</mo><mo>(</mo><mfrac><mn>1</mn><mi>A</mi></mfrac><mo>·</mo><mfrac><mi>A</mi>"
    "<mi>B</mi></mfrac><munder><mo>∑</mo><mrow><mi>i</mi><mo>∈</mo><msub><mi>M</mi><mi>k</mi></msub></mrow></munder>"
    "<msub><mi>ℓ</mi><mi>i</mi></msub><mo>)</mo>",
)


@dataclass(frozen=True)
class AccumulationRuns:
    """Code 1 as it is, without no_sync(), and without the division of the loss."""

    whole: Point
    talking: Point  # without no_sync(), so that all-reduces follow every backward pass
    undivided: Point
    gradient: GradientRow | None  # the first gradient of Code 1 as it is
    undivided_gradient: GradientRow | None
    change: StepChange | None  # change of the step without no_sync()
    early: LossCurve | None  # losses of the first steps with and without no_sync()
    late: LossCurve | None  # losses of all steps with and without no_sync()

    @property
    def points(self) -> tuple[Point, ...]:
        """The rows of the table."""
        return self.whole, self.talking, self.undivided

    @property
    def micro_batches(self) -> int | None:
        """The number of micro-batches in one optimizer step, or None."""
        row = self.whole.row
        return round(row.micro_batches) if row and row.micro_batches else None


def build(evidence: Evidence) -> Section:
    """Builds the section: table, figures, formula, answers."""
    found = accumulation(evidence)
    blocks: list[Block] = [_table(evidence, found), *_figures(evidence, found), FORMULA]
    return Section(
        "p7-1",
        "P7.1 Gradient accumulation (Code 1)",
        (*blocks, _divide(found), _skip(found), _without(found)),
        labelled=False,
    )


def accumulation(evidence: Evidence) -> AccumulationRuns:
    """Returns the data for P7.1."""
    whole = point(evidence, "as in the course", "no-sync", no_sync=1)
    talking = point(evidence, "without no_sync()", "no-sync", no_sync=0)
    return AccumulationRuns(
        whole,
        talking,
        point(evidence, "loss not divided", "division", divide=0),
        first_gradient(evidence.inspection("no-sync", no_sync=1)),
        first_gradient(evidence.inspection("division", divide=0)),
        change_between(evidence, whole, talking),
        _curve(evidence, whole, talking, EARLY),
        _curve(evidence, whole, talking, None),
    )


def first_gradient(inspection: Inspection | None) -> GradientRow | None:
    """Returns the gradient of the first step whose norm is finite and not zero, or None."""
    rows = inspection.gradients if inspection else ()
    return next((row for row in rows if row.norm and not row.non_finite), None)


def _curve(evidence: Evidence, a: Point, b: Point, first: int | None) -> LossCurve | None:
    one, two = figures_of(evidence, a.row), figures_of(evidence, b.row)
    if not one or not two:
        return None
    losses = one[0].losses[:first]
    # Sums in another order round differently, and each step inherits the difference of the previous one.
    tolerance = TOLERATED_ROUNDINGS * ROUNDOFF["float32"] * max(len(losses), 1)
    return loss_curve(two[0].losses[:first], losses, tolerance)


def _table(evidence: Evidence, found: AccumulationRuns) -> Table:
    gradients = (found.gradient, None, found.undivided_gradient)
    return Table(
        id=TABLE,
        title="Accumulation with and without what it rests on",
        columns=(
            Column("Code 1", numeric=False),
            Column("Ranks"),
            Column("Micro-batches"),
            Column("Step", "ms"),
            Column("Against the course", "% more time"),
            Column("All-reduces", "per step"),
            Column("Reduced", "MB per step"),
            Column("First gradient", "norm"),
            Column("Last loss"),
        ),
        rows=tuple(_cells(found, one, row) for one, row in zip(found.points, gradients, strict=True)),
        notes=(
            *(f"{one.label}: {one.missing}." for one in found.points if one.missing),
            "Last loss: as backward() was called on it, summed over the micro-batches.",
            *_curve_note(found),
            *why_lr(evidence, "no-sync"),
        ),
        caption=setting(evidence, "no-sync", "division", but=("ranks",)),
        runs=tuple(one.run_names for one in found.points),
    )


def _curve_note(found: AccumulationRuns) -> tuple[str, ...]:
    if found.early is None:
        return ()
    distance = said(number_cell(found.early.largest_distance))
    return (
        f"With and without no_sync() the first {found.early.steps} losses differ by {distance} of their value at most.",
    )


def _cells(found: AccumulationRuns, one: Point, gradient: GradientRow | None) -> tuple[Cell, ...]:
    row = one.row
    if row is None:
        return text_cell(one.label), *(empty_cell(one.missing) for _ in range(8))
    return (
        text_cell(one.label, mark=one.ranks.mark),
        one.ranks,
        count_cell(round(row.micro_batches)) if row.micro_batches else empty_cell("not seen"),
        one.step,
        _against(found, one),
        count_cell(one.reduces),
        one.reduced_mb,
        _norm(gradient),
        number_cell(row.last_loss, why_empty="no loss was seen"),
    )


def _against(found: AccumulationRuns, one: Point) -> Cell:
    """Returns the change of the step for the row that is compared, and an empty cell for the others."""
    if one is found.talking:
        return change_cell(found.change)
    return empty_cell("this is the course's own" if one is found.whole else "only its gradient and loss are compared")


def _norm(gradient: GradientRow | None) -> Cell:
    return number_cell(gradient.norm if gradient else None, why_empty="its gradients were not looked at")


def _figures(evidence: Evidence, found: AccumulationRuns) -> list[Figure]:
    anatomy = anatomy_figure(
        "p7-1-anatomy",
        "The step with and without no_sync()",
        [(one.label, one.row) for one in (found.whole, found.talking)],
        "Where the time goes: shares of the phases, mean over the ranks. Lines: 95 % interval of the step.",
    )
    count = found.micro_batches
    series = [
        loss_series("divided", figures_of(evidence, found.whole.row)),
        loss_series("not divided", figures_of(evidence, found.undivided.row), 1 / count if count else 1.0),
    ]
    caption = (
        "The loss that was not divided is drawn divided by the number of micro-batches, so both curves are per sample."
    )
    losses = loss_figure("p7-1-loss", "Loss with and without the division", caption, series)
    return [one for one in (anatomy, losses) if one]


def _divide(found: AccumulationRuns) -> Answer:
    rests_on = (TABLE,)
    count = found.micro_batches
    if found.gradient is None or found.undivided_gradient is None or count is None:
        return _unanswered(DIVIDE, [found.whole, found.undivided], "the gradients were not looked at")
    ratio = found.undivided_gradient.norm / found.gradient.norm
    norms = f"{said(_norm(found.undivided_gradient))} instead of {said(_norm(found.gradient))}"
    decided = f"Norm of the first gradient without over with the division, {ratio:.4g}, against {count} micro-batches."
    if abs(ratio / count - 1) > EXACT:
        return DIVIDE.without_hint(
            "Dividing keeps the gradient that of the mean loss, but these runs do not show it.",
            f"Without the division the first gradient has norm {norms}, which is not {count} times as much.",
            "Either the two runs did not begin with the same weights, or the script divides in another place.",
            decided=decided,
            rests_on=rests_on,
        )
    return DIVIDE.answer(
        f"Because backward() adds gradients up: without the division the gradient is {count} times too large.",
        f"The first gradient has norm {norms}, with {count} micro-batches.",
        (
            "The gradient of the mean over the whole batch is the sum of the micro-batches' gradients, each divided by"
            " their number; without it the direction is right and the size wrong."
        ),
        (
            f"SGD then steps as if LR were {count} times as large, so LR would have to change with ACCUM_STEPS; "
            f"Adam, which divides a gradient by its own size, would hardly notice.{_training(found, count)}"
        ),
        decided=decided,
        rests_on=rests_on,
    )


def _training(found: AccumulationRuns, count: int) -> str:
    """Returns the effect of the longer steps on the loss; empty if it was not seen."""
    whole, undivided = found.whole.row, found.undivided.row
    if undivided is not None and undivided.non_finite_steps:
        return " Here the training diverged: losses were no longer finite."
    if whole is None or undivided is None or whole.last_loss is None or undivided.last_loss is None:
        return ""
    if undivided.last_loss / count > whole.last_loss * (1 + EXACT):
        return " Here the loss of a sample ended higher than with the division."
    return ""


def _skip(found: AccumulationRuns) -> Answer:
    whole, talking = found.whole, found.talking
    if whole.row is None or talking.row is None:
        return _unanswered(SKIP, [whole, talking], "")
    if not whole.reduces or not talking.reduces:
        return _unanswered(SKIP, [], "one rank has nothing to synchronise")
    same = found.early is not None and found.early.within
    trained = ""
    if found.early is not None:
        distance = said(number_cell(found.early.largest_distance))
        trained = (
            f" The training is the same: the first {found.early.steps} losses differ by {distance} at most, which is"
            " rounding."
            if same
            else (
                f" But the first {found.early.steps} losses differ by {distance}, more than rounding explains: look for"
                " the cause."
            )
        )
    return SKIP.answer(
        "Because only the sum over all micro-batches is used, and the ranks need to average it only once.",
        (
            f"A step then sends {said(whole.reduced_mb, 'MB')} in {whole.reduces} all-reduces instead of "
            f"{said(talking.reduced_mb, 'MB')} in {talking.reduces}.{trained}"
        ),
        "Averaging over ranks is linear: one average of the sum is the sum of the averages.",
        (
            "Put forward and backward of all but the last micro-batch into no_sync(): DDP decides in forward whether "
            "backward will synchronise."
        ),
        decided=f"The losses of both runs agree to within {TOLERATED_ROUNDINGS} roundings of float32 for each step.",
        rests_on=(TABLE,),
    )


def _without(found: AccumulationRuns) -> Answer:
    change, whole, talking = found.change, found.whole, found.talking
    if change is None:
        return _unanswered(WITHOUT, [whole, talking], "the two did not do the same work")
    steps = f"{said(talking.step, 'ms')} instead of {said(whole.step, 'ms')}, {change.words()}"
    verdict = {
        "slower": "The step gets longer, and the result stays the same.",
        "faster": "In these runs the step did not get longer, although more is sent.",
        "cannot tell": "More is sent for the same result; on this machine the step changes too little to be told.",
    }[change.verdict]
    why = {
        "slower": "After every backward pass all ranks wait for one another and exchange gradients that are not used "
        "yet.",
        "faster": "Messages between processes of one machine are fast here and overlap with computing.",
        "cannot tell": "Messages between processes of one machine are fast here: they cost less than the steps vary.",
    }[change.verdict]
    extra = (
        f" It has {talking.reduces} all-reduces instead of {whole.reduces}." if talking.reduces > whole.reduces else ""
    )
    return WITHOUT.answer(
        verdict,
        f"It takes {steps}.{extra}",
        why,
        "The slower the link, the more no_sync() saves: between machines it saves most.",
        decided=f"The 95 % interval of the change, {said_with_interval(change.cell, '%')}, against 0.",
        rests_on=(TABLE, "p7-1-anatomy"),
    )


def _unanswered(question: Question, points: Sequence[Point], why: str) -> Answer:
    missing = "; ".join(one.missing for one in points if one.missing) or why
    return question.without_hint(f"This cannot be answered: {missing}.", rests_on=(TABLE,))
