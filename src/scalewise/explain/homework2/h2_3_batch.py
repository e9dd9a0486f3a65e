"""H2.3, batch: the effective batch out of the samples that were seen, and what the division of the loss is for."""

from scalewise.analysis.summary import ArmRow
from scalewise.explain.answer import Answer, unanswered
from scalewise.explain.arms import hole, usable
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework2.codes import ACCUMULATION
from scalewise.explain.homework2.h2_2_accumulation import EXPERIMENT, accum_values, micro_batch_of
from scalewise.explain.practical7.p7_1_accumulation import first_gradient

ROW = "H2.3"
QUESTION = "What is the effective batch size, and why is the loss divided?"
TABLE = "h2-2b-accumulation"
SAME_GRADIENT = 1e-4  # relative: sums in another order differ by 1e-6 in float32, another batch by far more


def answers(evidence: Evidence) -> tuple[Answer, ...]:
    """One answer from Code 1's arms."""
    values = accum_values(evidence)
    rows = {value: usable(evidence, EXPERIMENT, code=ACCUMULATION, accum=value) for value in values}
    known = {value: row for value, row in rows.items() if row and micro_batch_of(row)}
    if not known:
        return (unanswered(ROW, QUESTION, hole(evidence, EXPERIMENT, code=ACCUMULATION)),)
    products = [arithmetic(row) for row in known.values()]
    totals = {round(row.samples_per_step or 0) for row in known.values()}
    same = len(totals) == 1
    batch = f"Effective batch = micro-batch x ACCUM_STEPS x ranks: {'; '.join(products)}."
    if same:
        batch += " It is the same in every row, so the optimizer is asked the same question."
    else:
        batch += " It is not the same in every row, so their losses are not to be compared."
    gradient, rule = _gradient_words(evidence, tuple(known))
    condition = f"{'one effective batch' if same else f'{len(totals)} effective batches'} over all rows; {rule}"
    return (Answer(ROW, QUESTION, f"{batch} {gradient}", condition, (TABLE,)),)


def arithmetic(row: ArmRow) -> str:
    """`8 x 4 x 2 = 64`, from what was measured."""
    return f"{micro_batch_of(row):g} x {row.micro_batches:g} x {row.ranks} = {row.samples_per_step:g}"


def _gradient_words(evidence: Evidence, values: tuple[int, ...]) -> tuple[str, str]:
    """Whether the divided gradient depends on ACCUM_STEPS, and what it would be without the division."""
    first = {value: first_gradient(evidence.inspection(EXPERIMENT, code=ACCUMULATION, accum=value)) for value in values}
    norms = {value: row.norm for value, row in first.items() if row}
    if len(norms) < 2:
        return "The gradients were not seen.", "no gradients"
    base = next(iter(norms.values()))
    gap = max(abs(norm / base - 1) for norm in norms.values())
    few, many = min(norms), max(norms)
    if gap > SAME_GRADIENT:
        return (
            f"The first gradient's norm depends on ACCUM_STEPS, by up to {100 * gap:.2g} %: the loss is not divided by "
            f"the number of micro-batches that are added up.",
            f"norms differ by {gap:.1e} > {SAME_GRADIENT:g}",
        )
    error = f"{100 * (few - 1):.0f} % to {100 * (many - 1):.0f} %"
    return (
        f"With the division the first gradient has the same norm for ACCUM_STEPS {few} to {many} (to {gap:.1e}). "
        f"backward() adds up: undivided it would be ACCUM_STEPS times as long, {norms[few] * few:.4g} at {few} and "
        f"{norms[many] * many:.4g} at {many} instead of {norms[few]:.4g}, an error of {error} (computed; practical 7 "
        f"measures it).",
        f"norms differ by {gap:.1e} <= {SAME_GRADIENT:g}",
    )
