"""Two runs are compared in roundings of a third, and what parts them is seen by arithmetic on projections."""

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from factories import make_spec
from scalewise.agreement.causes import suspicions
from scalewise.agreement.compare_runs import factor_between, parity_of, relative_rounding, sample_scale
from scalewise.agreement.compared_run import ComparedRun, compared_run, equal_data, same_batch_everywhere
from scalewise.agreement.parity_answer import sentence_of
from scalewise.records.load import RankRecord, Run
from scalewise.records.parity import PROJECTIONS, GivenRow, SettingsOfGroupsRow, TensorRow
from scalewise.records.rows import StepRow

SIZE = 40
SIGNS = [[random.Random(f"{k} {i}").choice((-1, 1)) for i in range(SIZE)] for k in range(PROJECTIONS)]


def values(seed: object, scale: float = 1.0) -> list[float]:
    drawn = random.Random(str(seed))
    return [scale * drawn.gauss(0, 1) for _ in range(SIZE)]


def row(what: str, step: int, name: str, numbers: list[float], begin: int = 0, copies: int = 0) -> TensorRow:
    projections = tuple(sum(s * x for s, x in zip(signs[begin:], numbers, strict=False)) for signs in SIGNS)
    squares = sum(x * x for x in numbers)
    return TensorRow(step, what, name, (SIZE,), "float32", squares, projections, False, copies)  # type: ignore[arg-type]


def near(numbers: list[float], share: float, seed: object) -> list[float]:
    """The same numbers, each off by about this share."""
    drawn = random.Random(str(seed))
    return [x * (1 + share * drawn.gauss(0, 1)) for x in numbers]


def added(*tensors: list[float]) -> list[float]:
    return [sum(column) for column in zip(*tensors, strict=True)]


def run(*ranks: list[object]) -> ComparedRun:
    records = tuple(
        RankRecord(
            number,
            parity=tuple(one for one in rows if not isinstance(one, StepRow)),  # type: ignore[misc]
            steps=tuple(one for one in rows if isinstance(one, StepRow)),
        )
        for number, rows in enumerate(ranks)
    )
    return compared_run(Run(Path("runs/some"), make_spec(ranks=len(ranks)), None, None, records))


def rows(gradient: list[float], after: list[float] | None = None, start: list[float] | None = None) -> list[object]:
    start = values("start") if start is None else start
    after = added(start, [-0.1 * x for x in gradient]) if after is None else after
    return [
        row("parameter", 0, "w", start),
        row("gradient", 0, "w", gradient),
        row("parameter", 1, "w", after),
    ]


def loss(value: float) -> StepRow:
    return StepRow(0, 0, 0, 1, 0, 0, None, None, None, None, None, 1, loss=value)


TRUE = values("gradient")
REFERENCE, ROUNDED = run(rows(TRUE)), run(rows(near(TRUE, 1e-7, "rounded")))


def test_ranks_that_differ_by_rounding_are_the_same():
    compared = parity_of(REFERENCE, run(*(rows(near(TRUE, 1e-7, rank)) for rank in range(2))), ROUNDED)
    assert compared.first_difference is None and not compared.start
    kind, sentence = sentence_of(compared, "one rank", "2 ranks")
    assert kind == "same" and sentence.startswith("2 ranks and one rank compute the same up to rounding: in 1 step")


def test_ranks_that_differ_by_more_part_and_the_sentence_says_where():
    off = added(TRUE, values("mistake", 0.01))
    compared = parity_of(REFERENCE, run(rows(TRUE), rows(off)), ROUNDED)
    assert compared.first_difference is not None and compared.first_difference.step == 0
    kind, sentence = sentence_of(compared, "one rank", "2 ranks")
    assert kind == "differs" and "the gradient of w on rank 1 is apart by" in sentence


@pytest.mark.parametrize(("share", "parts"), [(3e-3, False), (0.2, True)])
def test_what_values_near_a_kink_do_is_allowed_for_a_few_times(share: float, parts: bool):
    other = run(rows(near(TRUE, share, "other")))
    known = replace(ROUNDED, kinks=run(rows(near(TRUE, 1e-3, "kinks"))))
    assert parity_of(REFERENCE, other, ROUNDED).first_difference is not None
    assert (parity_of(REFERENCE, other, known).first_difference is not None) == parts


def test_a_tensor_that_happens_to_be_rounded_alike_still_has_a_rounding():
    compared = parity_of(REFERENCE, run(rows(near(TRUE, 1e-7, 3))), REFERENCE)
    (step,) = compared.steps
    assert all(one.unit > 0 for one in step.tensors) and compared.first_difference is None


def test_a_difference_in_half_precision_is_measured_in_its_own_roundings():
    coarse = run(rows(near(TRUE, 4e-3, "rounded")))
    other = run(rows(near(TRUE, 4e-3, 1)))
    assert parity_of(REFERENCE, other, coarse).first_difference is None
    assert parity_of(REFERENCE, other, ROUNDED).first_difference is not None
    assert relative_rounding(REFERENCE, coarse) == pytest.approx(4e-3, rel=0.8)


def test_parts_of_ranks_are_put_together():
    whole = (values("start"), TRUE, added(values("start"), [-0.1 * x for x in TRUE]))
    halves = [
        [
            row(one.what, one.step, one.name, numbers[begin : begin + 20], begin, 1)
            for one, numbers in zip(rows(TRUE), whole, strict=True)
            if isinstance(one, TensorRow)
        ]
        for begin in (0, 20)
    ]
    compared = parity_of(REFERENCE, run(*halves), ROUNDED)
    assert compared.first_difference is None
    assert {one.rank for one in compared.steps[0].tensors} == {None}


def test_gradients_that_are_exchanged_inside_the_step_are_no_difference():
    parts = [values(rank) for rank in range(2)]
    mean = [x / 2 for x in added(*parts)]
    after = added(values("start"), [-0.1 * x for x in mean])
    compared = parity_of(run(rows(mean)), run(*(rows(one, after) for one in parts)), run(rows(near(mean, 1e-7, 9))))
    assert compared.first_difference is None


def test_a_number_that_is_not_finite_on_one_side_is_a_difference():
    broken = rows(TRUE)
    broken[1] = TensorRow(0, "gradient", "w", (SIZE,), "float32", 0.0, (0.0,) * PROJECTIONS, True)
    compared = parity_of(REFERENCE, run(broken), ROUNDED)
    assert compared.first_difference is not None and math.isinf(compared.first_difference.parted()[0].apart)


def names_of(reference: ComparedRun, other: ComparedRun) -> list[str]:
    compared = parity_of(reference, other, ROUNDED)
    return [one.name for one in suspicions(reference, other, compared, None)]


@pytest.mark.parametrize(
    ("factor", "name"),
    [
        (2.0, "summed-not-averaged"),
        (0.5, "divided-once-too-often"),
        (0.25, "divided-twice"),
        (3.3, "scaled-gradient"),
    ],
)
def test_a_gradient_times_a_factor_is_named_by_it(factor: float, name: str):
    scaled = [factor * x for x in TRUE]
    assert names_of(REFERENCE, run(rows(scaled), rows(scaled))) == [name]


def test_gradients_whose_mean_is_right_were_never_averaged():
    parts = [added(TRUE, values("apart")), added(TRUE, [-x for x in values("apart")])]
    other = run(*map(rows, parts))
    first = next(iter(suspicions(REFERENCE, other, parity_of(REFERENCE, other, ROUNDED), None)))
    assert first.name == "missing-reduction" and "averaged" in first.sentence


def test_gradients_whose_sum_is_right_were_never_summed():
    parts = [[x / 2 for x in added(TRUE, values("apart"))], [x / 2 for x in added(TRUE, [-x for x in values("apart")])]]
    other = run(*map(rows, parts))
    first = next(iter(suspicions(REFERENCE, other, parity_of(REFERENCE, other, ROUNDED), None)))
    assert first.name == "missing-reduction" and first.change is not None and first.change.settings == {"sum": 1}


def test_another_learning_rate_is_named_with_the_factors_that_mend_it():
    reference = run([*rows(TRUE), SettingsOfGroupsRow(0, 0, {"0.lr": 0.1})])
    double = added(values("start"), [-0.2 * x for x in TRUE])
    other = run(*([*rows(TRUE, double), SettingsOfGroupsRow(0, 0, {"0.lr": 0.2})] for _ in range(2)))
    (first, *_) = suspicions(reference, other, parity_of(reference, other, ROUNDED), None)
    assert first.name == "learning-rate-differs" and first.change is not None
    assert first.change.settings == {"by": "0.5"}


def test_ranks_that_start_apart_are_named():
    other = run(rows(TRUE), rows(values("else"), start=values("another start")))
    assert names_of(REFERENCE, other)[0] == "ranks-start-apart"


def test_a_parameter_that_stays_on_one_rank_was_not_sent():
    other = run(rows(TRUE, after=values("start")), rows(TRUE))
    assert "update-not-sent" in names_of(REFERENCE, other)


def test_a_factor_and_what_it_does_not_explain():
    found = factor_between(REFERENCE, run(rows([2 * x for x in TRUE])), 0)
    assert found is not None and found[0] == pytest.approx(2) and found[1] < 1e-9


def given(*digests: tuple[str, ...], across: tuple[str, ...] = ()) -> list[list[object]]:
    return [[*rows(TRUE), GivenRow(0, 1, 4, one, across or one)] for one in digests]


def test_one_rank_has_the_data_of_all_if_the_digests_add_up():
    two = run(*given(("0000000000000003",), ("0000000000000004",)))
    assert equal_data(run(*given(("0000000000000007",))), two)
    assert not equal_data(run(*given(("0000000000000003",))), two)
    assert not same_batch_everywhere(two)


def test_one_rank_has_the_data_that_every_rank_has():
    two = run(*given(("0000000000000003",), ("0000000000000003",)))
    assert equal_data(run(*given(("0000000000000003",))), two)
    assert same_batch_everywhere(two)


def test_slices_along_the_second_dimension_count_as_well():
    two = run(*given(("0000000000000001",), ("0000000000000002",), across=("0000000000000005",)))
    assert equal_data(run(*given(("0000000000000009",), across=("000000000000000a",))), two)


def test_a_sum_divided_by_what_the_ranks_make_of_it_is_told_from_a_mistake():
    reference = run([*rows(TRUE), loss(8.0)])
    halved = [x / 2 for x in TRUE]
    assert sample_scale(reference, run([*rows(halved), loss(1.5)], [*rows(halved), loss(2.5)])) == 0.5
    assert sample_scale(reference, run([*rows(halved), loss(3.0)], [*rows(halved), loss(5.0)])) is None
