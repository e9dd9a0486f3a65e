"""Predicted ranks: computing and messages, shifted and widened by what their check missed; nothing without a link."""

from dataclasses import replace

import pytest

from evidence_factories import make_evidence
from factories import make_machine
from homework1_evidence import WEIGHTS, link_in_training, rehearsal, strong
from scalewise.course.homework1.rank_points import predicted_ranks, training_link
from scalewise.course.homework1.rank_points import told as notes
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
    return predicted_ranks(make_evidence(*runs), "strong-scaling", **axes)


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


def test_a_prediction_that_was_checked_is_shifted_by_its_check_as_well_as_widened():
    right, wrong = (told(*two_cores(error=error)) for error in (1.0, 1.5))
    assert wrong.shift < 0.9 < right.shift
    assert wrong.rows[0].step.high / wrong.rows[0].step.value > right.rows[0].step.high / right.rows[0].step.value
    truth = 1e-3 + 16e-4 + 1e-4 + 6 * WEIGHTS / 1e9
    unshifted = wrong.rows[0].step.value / wrong.shift
    assert abs(wrong.rows[0].step.value - truth) < abs(unshifted - truth)
    assert wrong.rows[0].step.low < truth < wrong.rows[0].step.high


def test_checks_that_are_far_off_foretell_nothing_and_say_so():
    found = told(*two_cores(error=8.0))
    assert found.rows == () and "the check went wrong" in found.refused[0]
    assert notes(make_evidence(), [("", found)])[0].startswith("Not predicted: the check went wrong: a step of 12.3 ms")


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


def test_the_note_says_where_predicted_rows_come_from_and_what_their_check_found():
    note, order = notes(make_evidence(*two_cores()), [("", told(*two_cores()))])
    assert order.startswith("Order certain: 8 ranks do more than 4 with ") and order.endswith(" %.")
    assert note.startswith("Predicted: 4 and 8 ranks with a core each")
    assert "Checked on 2 ranks" in note and "shifted by what of that is likely to last" in note


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
    evidence = replace(make_evidence(*runs), machine=make_machine(gpus=1))
    found = predicted_ranks(evidence, "strong-scaling")
    assert [row.ranks for row in found.rows] == [2] and found.checks == () and found.shift == 1.0
    (note,) = notes(evidence, [("", found)])
    assert "with a GPU each" in note and "could not be checked" in note
