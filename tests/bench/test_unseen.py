"""`python -m bench unseen`: which models it takes, what is learnt from points, and what its plots show."""

import itertools
from dataclasses import replace
from math import exp, isfinite, log
from pathlib import Path

import pytest
from bench.scripts.unseen_sets import SETS
from bench.unseen import chosen
from bench.unseen_floor import apart, stolen_share
from bench.unseen_judge import SCRIPTS, Point
from bench.unseen_learn import LEAST_SPREAD, NO_SHIFT, SHARES, Sitting, between_sittings, cells_of, expected
from bench.unseen_plots import coverage_by_claim, errors_by_ranks

from factories import make_estimate, make_run
from scalewise.errors import BadRequest
from scalewise.launch.this_machine import page_seconds
from scalewise.records.load import Run
from scalewise.records.machine import SampleRow
from shared_servers import CommandLine


def point(ranks: int, off: float, communication: float = 0.1, half: float = 0.2) -> Point:
    """A step that was foreseen too long by that logarithm, with an interval of half that width."""
    told = make_estimate(exp(off), exp(off - half), exp(off + half), positive=True)
    return Point(
        "model", ranks, told, make_estimate(1.0, 0.99, 1.01, positive=True), None, None, exp(off), communication
    )


def sitting(name: str, *points: Point) -> Sitting:
    return Sitting(name, "here", 1, cells_of(points))


def shifts(*sittings: Sitting) -> list[float]:
    return [cell["shift"] for cell in expected(sittings)[0]]


def test_of_one_sittings_mean_only_a_part_becomes_a_shift():
    one = [sitting(str(number), point(2, 0.2), point(2, 0.2)) for number in range(8)]
    assert shifts(one[0]) == pytest.approx([0.2 / (1 + NO_SHIFT)] * len(SHARES), abs=1e-4)
    assert shifts(*one) == pytest.approx([8 * 0.2 / (8 + NO_SHIFT)] * len(SHARES), abs=1e-4)


def test_each_cell_leans_on_all_points_as_far_as_it_has_few():
    points = [point(2, sign * 0.1) for sign in (1, -1) * 10] + [point(8, sign * 0.4, 0.6) for sign in (1, -1)]
    cells = {(cell["ranks"], cell["communication"]): cell for cell in expected([sitting("one", *points)])[0]}
    assert cells[2, 0.0]["points"] == 20 and cells[8, 0.25]["points"] == 2
    assert 0.1 < cells[2, 0.0]["spread"] < 0.12
    assert 0.2 < cells[8, 0.25]["spread"] < 0.4
    assert cells[2, 0.25]["points"] == 0  # nothing of its own: as all points together


def test_what_sittings_differ_by_is_expected_again():
    alike = [sitting(name, point(2, 0.1), point(2, -0.1)) for name in "ab"]
    differing = [sitting("a", point(2, 0.4), point(2, 0.2)), sitting("b", point(2, -0.4), point(2, -0.2))]
    assert between_sittings(alike) == {2: 0.0}
    assert between_sittings(differing)[2] == pytest.approx((1.5 * (2 * 0.3**2 - 0.1**2 / 2)) ** 0.5)
    spreads = [expected(of)[0][0]["spread"] for of in (alike, differing)]
    assert spreads[1] > 3 * spreads[0]


def test_what_an_interval_holds_anyway_is_not_learnt_again():
    plain = [point(2, sign * 0.2) for sign in (1, -1)]
    (usual,), (narrower,) = cells_of(plain), cells_of([replace(one, apart=0.15) for one in plain])
    assert usual.spread == pytest.approx(0.2, abs=1e-3)
    assert narrower.spread == pytest.approx((0.2**2 - 0.15**2) ** 0.5, abs=1e-3)
    (least,) = cells_of([replace(one, apart=0.3) for one in plain])
    assert least.spread == LEAST_SPREAD


def run_of(milliseconds: float, steal: float | None = None) -> Run:
    run = make_run([milliseconds / 1e3] * 12, ranks=2)
    return replace(run, samples=tuple(replace(row, steal=steal) for row in run.samples) or (stolen(steal),))


def stolen(share: float | None) -> SampleRow:
    return SampleRow(1.0, 0.5, 0.0, share, 0.0, (), (), (), ())


def test_a_run_is_held_against_every_later_one():
    assert apart([[run_of(10.0)], [run_of(10.0), run_of(8.0), run_of(20.0)]]) == pytest.approx([0.25, 0.5, 0.6])
    assert apart([[run_of(10.0)]]) == []


def test_what_the_host_took_is_told_as_far_as_it_is_known():
    assert stolen_share(run_of(10.0, 0.04)) == pytest.approx(0.04)
    assert stolen_share(run_of(10.0)) == 0.0


def test_the_plots_show_errors_by_ranks_and_how_many_lie_inside():
    points = [point(2, log(1.1)), point(2, log(1.3)), point(8, log(0.8))]
    ways = {"nothing checked": [(one.ranks, one.predicted, one.measured) for one in points]}
    median, largest = errors_by_ranks(ways).plot.series
    assert median.x == (2.0, 8.0) and median.y == pytest.approx((20.0, 20.0))
    assert largest.y == pytest.approx((30.0, 20.0))
    seen, ideal = coverage_by_claim(ways).plot.series
    assert ideal.style == "ideal"
    assert list(seen.y) == sorted(seen.y) and seen.y[-1] == 100.0


def test_no_model_is_in_two_sets():
    names = {which: chosen(which, 0, None, 1) for which in SETS}
    assert all(names.values())
    assert [set(one) & set(other) for one, other in itertools.combinations(names.values(), 2)] == [set()] * 3


def test_a_set_is_run_in_parts_that_leave_nothing_out():
    whole = chosen("fresh", 0, None, 1)
    assert chosen("fresh", 0, 5, 1) + chosen("fresh", 5, None, 1) == whole
    assert chosen("fresh", 1, 2, 4) == [whole[1], whole[5]]


@pytest.mark.parametrize(
    ("skip", "most", "said"),
    [
        (99, None, "--skip 99 leaves none of the 9 models of the set development."),
        (-1, None, "--skip -1 is less than 0."),
        (0, 0, "--most 0 leaves no model."),
    ],
)
def test_a_part_without_models_is_refused(skip: int, most: int | None, said: str):
    with pytest.raises(BadRequest) as refused:
        chosen("development", skip, most, 1)
    assert refused.value.sentence == said


@pytest.mark.processes
def test_two_networks_train_in_turns_and_only_rank_0_prints_their_losses(scalewise: CommandLine, tmp_path: Path):
    words = ["--ranks", "2", "--device", "cpu", "--out", "runs", "--", "fresh", "adversarial", "--steps", "3"]
    ran = scalewise("run", str(SCRIPTS / "train_unseen.py"), *words, "--losses", cwd=tmp_path)
    printed = [next(tmp_path.glob(f"runs/*/*/rank{rank}.stdout.log")).read_text(encoding="utf-8") for rank in range(2)]
    lines = [line.split() for line in printed[0].splitlines()]
    assert [len(line) for line in lines] == [3] * 3, ran.stderr
    assert all(isfinite(float(word)) for line in lines for word in line)
    assert printed[1] == ""


def test_a_page_has_a_price():
    assert 0 <= page_seconds() < 1e-3
