"""Runs that measure nothing are listed as what they are, and are in no arm, comparison or exit code but their own."""

import json
from dataclasses import replace

import numpy as np
import pytest

from factories import make_outcome, make_run, make_suite, noisy
from scalewise.analysis.arms import arms_of
from scalewise.analysis.comparison import compare_suites
from scalewise.analysis.figures import settled_peak
from scalewise.analysis.scaling import BY_REMOVAL
from scalewise.analysis.summary import RehearsedRun, summarise
from scalewise.console.output import Output
from scalewise.console.terminal import show_document
from scalewise.errors import BadRequest
from scalewise.plan.words import parse_changes
from scalewise.records.codec import json_value
from scalewise.records.rows import ExposedRow, MemoryRow
from scalewise.records.spec import Change, Examined, Rehearsed
from scalewise.report.documents.measurement_document import measurement_document


def rehearsal(ranks=8, **changes):
    return make_run([0.001] * 20, 2, name=f"exp-rehearse{ranks}", kind=Rehearsed(ranks, 0, ranks), **changes)


def measured():
    return make_run([0.01] * 40, 2)


def test_a_rehearsal_by_two_is_no_repeat_of_two_real_ranks():
    (arm,) = arms_of([measured(), rehearsal()])
    assert [run.spec.name for run in arm.runs] == ["exp-ranks2-r0"]
    (row,) = summarise(make_suite(measured(), rehearsal())).experiments[0].rows
    assert row.runs == 1 and row.step_seconds.value == pytest.approx(0.01)


def test_it_is_listed_with_how_many_it_stood_for():
    analysis = summarise(make_suite(measured(), rehearsal()))
    assert analysis.rehearsed_runs == (RehearsedRun("exp-rehearse8", "exp", 8, 2, ""),)
    assert not analysis.failed


def test_one_that_failed_is_a_failed_run():
    analysis = summarise(make_suite(measured(), rehearsal(outcome=make_outcome("crashed", "Rank 0 raised."))))
    assert analysis.failed and analysis.rehearsed_runs[0].failure == "Rank 0 raised."


def test_it_is_not_compared_with_anything():
    with pytest.raises(BadRequest, match="was rehearsed, not measured"):
        compare_suites(make_suite(measured()), make_suite(rehearsal()))


def test_the_console_names_it_and_shows_no_time_of_it(capsys):
    crashed = make_outcome("crashed", "Rank 0 raised.")
    broken = replace(rehearsal(4), outcome=crashed)
    show_document(Output(quiet=True), measurement_document(summarise(make_suite(measured(), rehearsal(), broken))))
    shown = " ".join(capsys.readouterr().out.split())
    assert "Rehearsed, not measured, and in no table: exp-rehearse8 (2 of 8 ranks)." in shown
    assert "rehearsal exp-rehearse4 shows nothing: Rank 0 raised." in shown


def test_a_folder_of_nothing_but_a_rehearsal_shows_no_table(capsys):
    show_document(Output(quiet=True), measurement_document(summarise(make_suite(rehearsal()))))
    shown = " ".join(capsys.readouterr().out.split())
    assert shown == "Rehearsed, not measured, and in no table: exp-rehearse8 (2 of 8 ranks)."


def diagnosed(**changes):
    """What `scalewise doctor` leaves: one observed run, a replay looked at closely, and a replay that is timed."""
    fix = {"changes": (Change("no_sync", {"window": 4}),)}
    return make_suite(
        make_run([0.030] * 40, 2, name="observed", kind=Examined(), at=1.0, **changes),
        make_run([0.050] * 20, 2, name="r0-plain", kind=Examined(show_gradients=True), at=2.0),
        make_run([0.040] * 20, 2, name="r0-mended", kind=Examined(show_gradients=True), at=3.0, **fix),
        make_run([0.010] * 60, 2, 1, name="r1-plain", at=4.0),
        make_run([0.008] * 60, 2, 1, name="r1-mended", at=5.0, **fix),
    )


def test_examined_runs_are_in_no_row_and_a_timed_replay_says_what_was_changed():
    (experiment,) = summarise(diagnosed()).experiments
    plain, fixed = experiment.rows
    assert (plain.run_names, fixed.run_names) == (("r1-plain",), ("r1-mended",))
    assert plain.step_seconds.value == pytest.approx(0.010) and fixed.step_seconds.value == pytest.approx(0.008)
    assert (plain.label, fixed.label) == ("2 ranks", "no_sync window=4, 2 ranks")
    assert (plain.change, fixed.change) == ("none", "no_sync:window=4")


def test_a_folder_of_the_doctor_says_what_its_runs_are(capsys):
    analysis = summarise(diagnosed())
    assert not analysis.failed and [one.run for one in analysis.examined_runs] == ["observed", "r0-plain", "r0-mended"]
    show_document(Output(quiet=True), measurement_document(analysis))
    shown = " ".join(capsys.readouterr().out.split())
    assert "Examined, not measured, and in no table: observed, r0-plain, r0-mended (no_sync window=4)." in shown
    assert "changed" in shown


def test_an_examined_run_that_failed_is_a_failed_run(capsys):
    analysis = summarise(diagnosed(outcome=make_outcome("crashed", "Rank 0 raised.")))
    assert analysis.failed
    show_document(Output(quiet=True), measurement_document(analysis))
    assert "examined run observed failed: Rank 0 raised." in " ".join(capsys.readouterr().out.split())


def test_an_examined_run_is_not_compared_with_anything():
    examined = make_suite(make_run([0.030] * 40, 2, name="observed", kind=Examined()))
    with pytest.raises(BadRequest, match="was examined, not measured"):
        compare_suites(make_suite(measured()), examined)


def rows_of(*runs):
    (experiment,) = summarise(make_suite(*runs)).experiments
    return {row.label: row for row in experiment.rows}


def test_a_suite_becomes_one_table_per_experiment_with_repeats_together():
    runs = [
        make_run(noisy(60, 0.01 / ranks, 10 * ranks + repeat), ranks=ranks, repeat=repeat, axes={"dim": 8})
        for repeat in range(3)
        for ranks in (1, 2)
    ]
    analysis = summarise(make_suite(*runs, make_run([0.01] * 40, experiment="other", name="other")))
    first, other = analysis.experiments
    assert (first.name, other.name) == ("exp", "other")
    assert first.axes == ("dim",)
    assert [(row.ranks, row.runs, row.mark) for row in first.rows] == [(1, 3, "measured"), (2, 3, "measured")]
    assert first.rows[1].step_seconds.value == pytest.approx(0.005, rel=0.05)
    assert first.rows[1].scaling.speedup.value == pytest.approx(2, rel=0.1)
    assert len(first.runs) == 6


def test_a_row_has_throughput_phases_and_variation():
    row = rows_of(make_run([0.02] * 5 + [0.01] * 60, ranks=2))["2 ranks"]
    assert row.warmup_steps == 5
    assert row.samples_per_step == 64
    assert row.samples_per_second.value == pytest.approx(64 / (0.01 + 3e-6))
    assert row.phase_seconds["backward"] == pytest.approx(0.005)
    assert row.variation == pytest.approx(0.0, abs=1e-9)
    assert row.p95_over_median == pytest.approx(1.0)
    assert row.first_loss == 1.0 and row.last_loss == pytest.approx(1 / 65)


def test_the_slowest_rank_and_the_skew_are_told():
    slow = np.array([[0.010] * 60, [0.012] * 60])
    row = rows_of(make_run(slow, ranks=2))["2 ranks"]
    assert row.skew_seconds == pytest.approx(0.002)
    assert (row.slowest_rank, row.slowest_share) == (1, 1.0)
    assert rows_of(make_run([0.01] * 60))["1 rank"].slowest_rank is None


def test_failed_and_unfinished_arms_stay_in_the_table():
    failed = make_run([0.01] * 40, outcome=make_outcome("hung", "No rank moved."))
    analysis = summarise(make_suite(failed, make_run([0.01] * 40, ranks=2, unfinished=True)))
    one, two = analysis.experiments[0].rows
    assert (one.mark, one.reason, one.step_seconds, one.runs_failed) == ("failed", "No rank moved.", None, 1)
    assert (two.mark, two.runs_failed) == ("unfinished", 0)
    assert analysis.failed and analysis.doubtful


def test_an_oversubscribed_arm_is_marked_and_its_refusal_listed():
    runs = make_run([0.01] * 60), make_run([0.02] * 60, ranks=2, oversubscribed=True)
    (experiment,) = summarise(make_suite(*runs)).experiments
    assert experiment.rows[1].mark == "oversubscribed"
    assert [(one.arm, one.reason) for one in experiment.refusals] == [("2 ranks", "oversubscribed, not scaling")]


def test_communication_is_priced_by_removing_it_and_shown_beside_what_was_seen():
    removed = parse_changes("remove_communication")
    runs = []
    for repeat in range(5):
        plain = make_run(noisy(60, 0.010, repeat), ranks=2, repeat=repeat)
        exposed = tuple(ExposedRow(step, 2_000_000, 3_000_000, "hook tail") for step in range(5, 50, 5))
        ranks = tuple(replace(rank, exposed=exposed) for rank in plain.ranks)
        without = make_run(
            noisy(60, 0.007, 50 + repeat), ranks=2, repeat=repeat, changes=removed, name=f"removed{repeat}"
        )
        runs += [replace(plain, ranks=ranks), without]
    rows = rows_of(*runs)
    seen, price = rows["2 ranks"].communication
    assert (seen.method, seen.seconds.value, seen.seconds.low) == (
        "hook tail", pytest.approx(0.002), pytest.approx(0.002)
    )  # fmt: skip
    assert price.method == BY_REMOVAL and price.seconds.level == 0.95
    assert price.seconds.low < 0.003 < price.seconds.high and price.seconds.value == pytest.approx(0.003, rel=0.2)
    assert rows["remove communication, 2 ranks"].communication == ()


def test_communication_that_could_not_be_removed_has_no_price():
    removed = make_run([0.01] * 40, ranks=2, changes=parse_changes("remove_communication"), name="removed")
    never = tuple(replace(rank, end=replace(rank.end, changes_applied={})) for rank in removed.ranks)
    rows = rows_of(make_run([0.01] * 40, ranks=2), replace(removed, ranks=never))
    assert rows["2 ranks"].communication == ()


def test_arms_come_in_the_order_of_their_first_repeat():
    runs = [
        make_run([0.01] * 40, repeat=repeat, axes={"sync": sync}, at=at, name=f"{sync}{repeat}")
        for sync, repeat, at in (("every", 0, 11.0), ("every", 1, 12.0), ("last", 0, 10.0), ("last", 1, 13.0))
    ]
    assert list(rows_of(*runs)) == ["sync last, 1 rank", "sync every, 1 rank"]


def test_memory_is_the_most_over_ranks_and_time():
    run = make_run([0.01] * 40, ranks=2)
    ranks = tuple(
        replace(
            rank, memory=tuple(MemoryRow(s, 100 * s + rank.rank, 0, 1, 2, 3, None, None, None, None) for s in (1, 9))
        )
        for rank in run.ranks
    )
    memory = rows_of(replace(run, ranks=ranks))["2 ranks"].memory
    assert (memory.peak_rss_bytes, memory.optimizer_bytes, memory.cuda_peak_allocated_bytes) == (901, 3, None)


def on_gpu(step, whole, stretch):
    return MemoryRow(step, 1, 0, 0, 0, 0, None, None, whole, None, stretch)


def test_memory_of_a_gpu_is_the_peak_after_warm_up_and_that_of_the_whole_run_is_kept():
    run = make_run([0.01] * 40, ranks=1)
    stretches = ((0, 500), (1, 900), (2, 700), (4, 600), (39, 610))
    memory = tuple(on_gpu(step, 900, peak) for step, peak in stretches)
    found = rows_of(replace(run, ranks=(replace(run.ranks[0], memory=memory),)))["1 rank"].memory
    assert (found.cuda_peak_allocated_bytes, found.cuda_whole_peak_bytes) == (610, 900)


def test_without_a_stretch_after_warm_up_the_last_one_counts_and_without_any_the_whole_run():
    assert settled_peak((on_gpu(0, 900, 900), on_gpu(1, 900, 800), on_gpu(2, 900, 700)), 1) == 700
    assert settled_peak((on_gpu(0, 900, None), on_gpu(9, 950, None)), 1) == 950
    assert settled_peak((on_gpu(0, None, None),), 1) is None
    assert settled_peak((), 1) is None
    late = tuple(on_gpu(step, 900, peak) for step, peak in ((0, 1), (8, 900), (16, 800), (32, 600)))
    assert settled_peak(late, 8) == 800, "the stretch that begins with the last warm-up step's end"


def test_collectives_are_counted_per_step():
    row = rows_of(make_run([0.01] * 40, step={"collectives": {"all_reduce": (2, 4096)}}))["1 rank"]
    (one,) = row.collectives
    assert (one.kind, one.count, one.bytes) == ("all_reduce", 2.0, 4096.0)


def test_skipped_steps_and_scales_are_kept():
    run = make_run([0.01] * 40, step={"scale": 1024.0, "skipped": True, "autocast": "float16"})
    (experiment,) = summarise(make_suite(run)).experiments
    assert experiment.rows[0].skipped_steps == 40
    assert experiment.rows[0].precision == ("float32", "autocast float16")
    assert experiment.runs[0].scales == (1024.0,) * 40


@pytest.mark.parametrize("count", [1, 2, 3, 8, 9])
def test_a_handful_of_steps_is_analysed_with_a_caveat_and_no_exception(count):
    (row,) = rows_of(make_run([0.01] * count, ranks=2)).values()
    assert row.step_seconds.value == pytest.approx(0.01)
    assert "too few steps" in [caveat.name for caveat in row.caveats]


def test_everything_is_json_without_numbers_that_json_lacks():
    run = make_run(noisy(60, 0.01, 1), step={"loss": None})
    text = json.dumps(json_value(summarise(make_suite(run))), allow_nan=False)
    data = json.loads(text)
    assert data["experiments"][0]["rows"][0]["step_seconds"]["runs"] == 1
    assert json_value([float("nan"), float("inf"), 1.5, None]) == [None, None, 1.5, None]


def test_an_empty_suite_is_an_empty_analysis():
    analysis = summarise(make_suite())
    assert analysis.experiments == () and not analysis.failed and not analysis.doubtful
