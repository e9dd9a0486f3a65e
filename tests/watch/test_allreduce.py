"""The subject that makes one all-reduce per step: refuses in one sentence, and its points can be read."""

from pathlib import Path

import pytest

from factories import make_outcome, make_spec
from scalewise.analysis.fits import link_points
from scalewise.plan.experiment import subject_folder
from scalewise.records.load import RankRecord, Run
from scalewise.records.rows import StepRow

SCRIPT = str(subject_folder() / "allreduce.py")


def test_every_call_after_the_first_of_its_size_is_a_point(runner) -> None:
    ran = runner.watched(SCRIPT, "--sizes", "4,4096,65536", "--repeats", "3", ranks=2)

    assert ran.codes == (0, 0), ran.stderr
    ranks = tuple(
        RankRecord(rank, steps=tuple(row for row in ran.rows(rank).rows if isinstance(row, StepRow))) for rank in (0, 1)
    )
    run = Run(Path("link"), make_spec(2), make_outcome(), None, ranks)
    points = link_points(run)
    assert [point.bytes for point in points] == [4, 4096, 65536] * 2
    assert all(point.seconds > 0 and point.ranks == 2 for point in points)


def test_other_collectives_are_points_of_the_same_sizes(runner) -> None:
    kinds = ("all_gather", "reduce_scatter")
    ran = runner.watched(SCRIPT, "--kinds", ",".join(kinds), "--sizes", "4096,65536", "--repeats", "2", ranks=2)

    assert ran.codes == (0, 0), ran.stderr
    ranks = tuple(
        RankRecord(rank, steps=tuple(row for row in ran.rows(rank).rows if isinstance(row, StepRow))) for rank in (0, 1)
    )
    points = link_points(Run(Path("link"), make_spec(2), make_outcome(), None, ranks), kinds)
    assert [(point.kind, point.bytes) for point in points] == [(kind, size) for size in (4096, 65536) for kind in kinds]


def test_with_little_time_all_ranks_stop_after_the_same_round_and_large_messages_come_less_often(runner) -> None:
    large = 1 << 22
    words = ("--hot", "--sizes", f"4,{large}", "--repeats", "50", "--seconds", "0.001")
    ran = runner.watched(SCRIPT, *words, ranks=2)

    assert ran.codes == (0, 0), ran.stderr
    rows = [row for row in ran.rows(0).rows if isinstance(row, StepRow)]
    sizes = [row.collectives["all_reduce"][1] for row in rows if set(row.collectives) == {"all_reduce"}]
    assert sizes == [4, large, 4, 4, large]  # three rounds, the large one in every second


@pytest.mark.parametrize(
    ("args", "ranks", "sentence"),
    [
        ((), 0, "an all-reduce needs 2 ranks or more"),
        (("--sizes", "4,x"), 2, "'4,x' is not a list of bytes"),
        (("--sizes", "6"), 2, "each a multiple of 4"),
        (("--kinds", "all_reduce,all_sum"), 2, "'all_reduce,all_sum' is not a list of collectives"),
        (("--repeats", "1"), 2, "--repeats must be at least 2"),
        (("--seconds", "0"), 2, "--seconds must be more than 0, not 0"),
    ],
)
def test_a_refusal_is_one_sentence_and_exit_code_2(runner, args, ranks, sentence) -> None:
    ran = runner.raw(SCRIPT, *args, ranks=ranks)

    assert set(ran.codes) == {2}
    for text in ran.stderr:
        assert sentence in text and text.startswith("allreduce.py: ") and text.count("\n") == 1
