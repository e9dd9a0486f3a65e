"""Runs that measure nothing are listed as what they are, and are in no arm, comparison or exit code but their own."""

from dataclasses import replace

import pytest

from factories import make_outcome, make_run, make_suite
from scalewise.analysis.arms import arms_of
from scalewise.analysis.comparison import compare_suites
from scalewise.analysis.summary import summarise
from scalewise.analysis.untimed import RehearsedRun
from scalewise.console.analysis_view import show_analysis
from scalewise.console.output import Output
from scalewise.errors import BadRequest
from scalewise.records.spec import Change, Examined, Rehearsed


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
    show_analysis(Output(quiet=True), summarise(make_suite(measured(), rehearsal(), broken)))
    shown = " ".join(capsys.readouterr().out.split())
    assert "Rehearsed, not measured, and in no table: exp-rehearse8 (2 of 8 ranks)." in shown
    assert "rehearsal exp-rehearse4 shows nothing: Rank 0 raised." in shown


def test_a_folder_of_nothing_but_a_rehearsal_shows_no_table(capsys):
    show_analysis(Output(quiet=True), summarise(make_suite(rehearsal())))
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
    plain, mended = experiment.rows
    assert (plain.run_names, mended.run_names) == (("r1-plain",), ("r1-mended",))
    assert plain.step_seconds.value == pytest.approx(0.010) and mended.step_seconds.value == pytest.approx(0.008)
    assert (plain.label, mended.label) == ("2 ranks", "no_sync window=4, 2 ranks")
    assert (plain.change, mended.change) == ("none", "no_sync:window=4")


def test_a_folder_of_the_doctor_says_what_its_runs_are(capsys):
    analysis = summarise(diagnosed())
    assert not analysis.failed and [one.run for one in analysis.examined_runs] == ["observed", "r0-plain", "r0-mended"]
    show_analysis(Output(quiet=True), analysis)
    shown = " ".join(capsys.readouterr().out.split())
    assert "Examined, not measured, and in no table: observed, r0-plain, r0-mended (no_sync window=4)." in shown
    assert "changed" in shown


def test_an_examined_run_that_failed_is_a_failed_run(capsys):
    analysis = summarise(diagnosed(outcome=make_outcome("crashed", "Rank 0 raised.")))
    assert analysis.failed
    show_analysis(Output(quiet=True), analysis)
    assert "examined run observed did not get through: Rank 0 raised." in " ".join(capsys.readouterr().out.split())


def test_an_examined_run_is_not_compared_with_anything():
    examined = make_suite(make_run([0.030] * 40, 2, name="observed", kind=Examined()))
    with pytest.raises(BadRequest, match="was examined, not measured"):
        compare_suites(make_suite(measured()), examined)
