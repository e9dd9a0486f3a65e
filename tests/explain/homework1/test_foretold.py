"""Predicted ranks: a step is computing plus its message, checks widen the interval, and nothing rests on no link."""

from dataclasses import replace

import pytest

from evidence_factories import make_evidence
from factories import make_machine
from homework1_evidence import WEIGHTS, link_in_training, rehearsal, strong
from scalewise.explain.homework1.foretold import foretelling
from scalewise.explain.homework1.foretold_words import notes, predicted_answer
from scalewise.explain.homework1.training_link import training_link
from scalewise.predict.link import Link
from scalewise.predict.measured_link import NoLink
from scalewise.records.machine import GpuFacts

MESSAGE = 1e-4 + 4 * WEIGHTS / 1e9  # among two ranks, by the link of the factory


def two_cores(*, exchange=MESSAGE, error=1.0, **changes):
    """One and two ranks measured, four oversubscribed; two, four and eight rehearsed."""
    runs = strong(exchange=exchange, ranks=(1, 2), **changes)
    runs += strong(exchange=exchange, ranks=(4,), oversubscribed=True, **changes)
    runs += [rehearsal(ranks, error * (1e-3 + 64e-4 / ranks), **changes) for ranks in (2, 4, 8)]
    return [*runs, link_in_training(), link_in_training(ranks=4, oversubscribed=True)]


def told(*runs, **axes):
    return foretelling(make_evidence(*runs), "strong-scaling", **axes)


def test_a_step_is_the_computing_of_a_rank_and_the_message_of_a_ring():
    four, eight = told(*two_cores()).rows
    assert (four.ranks, eight.ranks) == (4, 8)
    ring = 4 * WEIGHTS / 1e9
    assert four.step.value == pytest.approx(1e-3 + 16e-4 + 1e-4 + 1.5 * ring, rel=0.01)
    assert eight.step.value == pytest.approx(1e-3 + 8e-4 + 1e-4 + 1.75 * ring, rel=0.01)
    assert four.speedup.value == pytest.approx((1e-3 + 64e-4) / four.step.value, rel=0.01)
    assert four.efficiency.value == pytest.approx(four.speedup.value / 4)
    assert four.step.low < four.step.value < four.step.high and four.speedup.low < four.speedup.high


def test_ranks_that_were_measured_are_checked_and_not_told():
    found = told(*two_cores())
    (check,) = found.checks
    assert check.ranks == 2 and check.ratio == pytest.approx(1, abs=0.01)
    assert 2 not in [row.ranks for row in found.rows]


def test_an_error_of_the_check_widens_what_is_told():
    right, wrong = (told(*two_cores(error=error)).rows[0].step for error in (1.0, 1.5))
    assert wrong.high / wrong.value > right.high / right.value
    assert wrong.low < 1e-3 + 16e-4 + 1e-4 + 6 * WEIGHTS / 1e9 < wrong.high


def test_checks_that_are_far_off_foretell_nothing_and_say_so():
    found = told(*two_cores(error=8.0))
    assert found.rows == () and "the check went wrong" in found.refused[0]
    assert notes([("", found)])[0].startswith("Not predicted, for the check went wrong: a step of 12.3 ms")


def test_oversubscribed_all_reduces_are_no_link():
    runs = [run for run in two_cores() if run.spec.experiment != "link-in-training"]
    found = told(*runs, link_in_training(ranks=2, oversubscribed=True))
    assert found.rows == () and found.refused == (
        "2 ranks: no two ranks exchanged anything here",
        "4 ranks: no two ranks exchanged anything here",
        "8 ranks: no two ranks exchanged anything here",
    )


def test_a_rehearsal_that_failed_is_named():
    broken = replace(rehearsal(8, 1e-3), outcome=None)
    found = told(*strong(ranks=(1, 2)), broken, link_in_training())
    assert found.rows == () and found.refused == ("8 ranks: the rehearsal did not end",)


def test_rehearsed_runs_are_in_no_table_of_measurements():
    evidence = make_evidence(*two_cores())
    rows = evidence.rows("strong-scaling")
    assert [row.ranks for row in rows] == [1, 2, 4]
    assert not any("rehearse" in name for row in rows for name in row.run_names)
    assert [(one.ranks, one.company) for one in evidence.analysis.rehearsed_runs] == [(2, 2), (4, 2), (8, 2)]


def test_what_is_told_rests_on_guesses_that_stand_under_the_table():
    (note,) = notes([("", told(*two_cores()))])
    assert "90 % intervals" in note and "rehearsed by 2 processes at once" in note
    assert "Checked: 2 ranks" in note and "that 8 ranks slow each other's memory no more than 2 do" in note


def test_the_answer_says_that_nothing_was_measured_and_whether_more_ranks_pay():
    (answer,) = predicted_answer("H1.2", [("", told(*two_cores(exchange=MESSAGE)))], ("table",))
    assert answer.text.startswith("Predicted, not measured. A step would take") and answer.rests_on == ("table",)
    assert "slower than one rank" in answer.text
    assert predicted_answer("H1.2", [("", told(*strong()))], ("table",)) == ()


def test_where_no_two_ranks_run_a_known_gpu_has_the_link_of_its_name():
    gpu = GpuFacts(0, "NVIDIA H200", 2**37, "uuid0")
    evidence = replace(make_evidence(*strong(ranks=(1,))), machine=make_machine(gpus=1))
    known = replace(evidence, machine=replace(evidence.machine, gpus=(gpu,)))
    link = training_link(known, 8, "cuda")
    assert isinstance(link, Link) and link.origin == "catalogue"
    assert link.guesses[0] == "that 8 NVIDIA H200 are joined by nvlink4 (catalogue)"
    assert isinstance(training_link(known, 16, "cuda"), NoLink)
    other = replace(known, machine=replace(known.machine, gpus=(replace(gpu, name="NVIDIA T4"),)))
    refusal = training_link(other, 2, "cuda")
    assert isinstance(refusal, NoLink) and "(NVIDIA T4) is not known" in refusal.reason


def test_one_gpu_is_told_without_a_check_and_says_so():
    runs = [*strong(ranks=(1,), device="cuda"), rehearsal(2, 4e-3, company=1, device="cuda")]
    found = foretelling(replace(make_evidence(*runs), machine=make_machine(gpus=1)), "strong-scaling")
    assert [row.ranks for row in found.rows] == [2] and found.checks == ()
    assert "Not checked" in notes([("", found)])[0] and "by one process" in notes([("", found)])[0]
