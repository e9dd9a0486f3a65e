"""Makes the document of a comparison: the verdict, the cause, and the steps beside each other."""

import math
from collections.abc import Iterator

from scalewise.agreement.compare_runs import MOST_ROUNDINGS, StepDistance, TensorDistance
from scalewise.agreement.parity_answer import ParityAnswer, percent
from scalewise.report.document import Block, Cell, Code, Column, Document, Paragraph, Section, Table, Tone
from scalewise.units import counted

_TONES: dict[str, Tone] = {"same": "good", "differs": "wrong", "untold": "suspected"}
_MOST_TENSORS = 12


def parity_document(answer: ParityAnswer) -> Document:
    """Returns the whole answer."""
    sections = [Section("verdict", "", tuple(_verdict(answer)))]
    if answer.compared is not None and answer.compared.steps:
        sections.append(Section("steps", "Step by step", (_steps(answer),)))
        first = answer.compared.first_difference
        if first is not None:
            sections.append(
                Section("tensors", f"Step {answer.first_step + first.step}, furthest apart first", (_tensors(first),))
            )
    sections.append(Section("how", "How it was compared", tuple(_how(answer))))
    ranks = answer.other or counted(answer.ranks, "rank")
    subtitle = (f"{ranks} against {answer.reference}, in {answer.seconds:.0f} s",)
    return Document("parity", answer.script, subtitle, tuple(sections), made_by="scalewise parity", numbered=False)


def _verdict(answer: ParityAnswer) -> Iterator[Block]:
    yield Paragraph(answer.sentence, tone=_TONES[answer.kind])
    cause = answer.cause
    if cause is not None:
        proof = (
            f"With {cause.change} applied from outside, the runs compute the same."
            if cause.change
            else "The numbers themselves show it."
        )
        yield Paragraph(f"{cause.sentence}. {proof}", f"Cause: {cause.name}")
        if cause.fix:
            yield Code(cause.fix)
    elif answer.kind == "differs":
        yield Paragraph("None that is known here explains all of it.", "Cause")


def _steps(answer: ParityAnswer) -> Table:
    assert answer.compared is not None
    other = answer.other or counted(answer.ranks, "rank")
    steps = answer.compared.steps
    sums = not answer.other and _are_sums(steps[0], answer.ranks)
    columns = (
        Column("step"),
        Column(f"loss, {answer.reference}", short="loss"),
        Column(
            f"loss, {'sum' if sums else 'mean'} of {other}" if not answer.other else f"loss, {other}", short="other"
        ),
        Column(f"gradient, {answer.reference}", short="grad."),
        Column(f"gradient, {other}", short="other"),
        Column("furthest apart", numeric=False, short="furthest", extra=1),
        Column("roundings"),
    )
    rows = tuple(tuple(_step_cells(step, answer.first_step, answer.ranks if sums else 1)) for step in steps)
    rounding = (
        f"what the same run of {answer.reference} differs by when it sums in another order"
        if answer.relative_rounding is not None
        else "one unit in the last place"
    )
    note = f"Apart by more than {MOST_ROUNDINGS:g} roundings is another computation. One rounding is {rounding}."
    return Table("parity-steps", "Steps beside each other", columns, rows, (note,))


def _are_sums(step: StepDistance, ranks: int) -> bool:
    """Tells whether the ranks' losses are parts of one sum: then their sum is nearer to one rank's than their mean."""
    if step.loss is None or step.other_loss is None:
        return False
    return abs(step.other_loss * ranks - step.loss) < abs(step.other_loss - step.loss)


def _step_cells(step: StepDistance, first: int, times: int) -> Iterator[Cell]:
    yield Cell(str(first + step.step), first + step.step)
    other = step.other_loss * times if step.other_loss is not None else None
    for value in (step.loss, other, step.norm, step.other_norm):
        yield Cell("–" if value is None else f"{value:.6g}", value)
    worst = step.worst
    yield Cell(f"{worst.what} {worst.name}" if worst else "–")
    yield _roundings(worst)


def _roundings(one: TensorDistance | None) -> Cell:
    if one is None or not math.isfinite(one.roundings):
        return Cell("not finite" if one else "–")
    return Cell(f"{one.roundings:.2g}" if one.roundings < 1000 else f"{one.roundings:.3g}", one.roundings)


def _tensors(step: StepDistance) -> Table:
    columns = (
        Column("tensor", numeric=False),
        Column("of", numeric=False),
        Column("rank", numeric=False, extra=2),
        Column("apart", numeric=False),
        Column("roundings"),
    )
    parted = step.parted()
    found = list({(one.name, one.what): one for one in reversed(parted)}.values())[
        ::-1
    ]  # of each the rank furthest off
    rows = tuple(
        (
            Cell(one.name),
            Cell(one.what),
            Cell("all" if one.rank is None else str(one.rank)),
            Cell(percent(one.relative)),
            _roundings(one),
        )
        for one in found[:_MOST_TENSORS]
    )
    more = (f"And {len(found) - _MOST_TENSORS} more.",) if len(found) > _MOST_TENSORS else ()
    return Table("parity-tensors", "Tensors that part", columns, rows, more)


def _how(answer: ParityAnswer) -> Iterator[Block]:
    yield from map(Paragraph, answer.notes)
    if answer.relative_rounding is not None:
        yield Paragraph(
            f"Rounding of this script, measured: {percent(answer.relative_rounding)} of the first gradient's length."
        )
    for one in answer.tried:
        yield Paragraph(one, "Tried")
    if answer.folder:
        yield Paragraph(answer.folder, "The runs", "quiet")
