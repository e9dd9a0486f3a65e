"""Answers in words: each number says what it is, and thresholds, checks and limits are told as they are."""

from dataclasses import replace

from factories import make_estimate
from rehearsal_specimen import answer_of, around, full_answer, shared_model, shifted
from scalewise.predict.answer import Base, Checked
from scalewise.predict.conclusion import conclusions_from
from scalewise.predict.cost import Training
from scalewise.predict.efficiency_threshold import EfficiencyThreshold as Threshold
from scalewise.predict.predicted_memory import PredictedMemory
from scalewise.predict.predicted_scaling import scaling_table
from scalewise.predict.prediction_text import (
    base_text,
    bound_text,
    bounds_text,
    change_notes,
    check_text,
    checks_text,
    cost_text,
    memory_notes,
    memory_text,
    range_text,
    rests_on,
    setting_text,
    step_text,
    threshold_text,
    title_text,
)
from taped_steps import MIB

FOUND = conclusions_from(full_answer(), 2**31, Training(steps=1))
MODELLED = Base(around(1e-3), 64.0, measured=False)


def test_a_threshold_has_its_interval_and_says_how_far_was_looked():
    assert threshold_text(Threshold(0.8, 12, 8, 20, 64, False), ()) == (
        "Efficiency falls under 80 % at 12 ranks (predicted, interval 8 to 20)."
    )
    assert "interval 8 to more than 64, farther than was rehearsed" in threshold_text(
        Threshold(0.5, 12, 8, None, 64, True), ()
    )
    assert threshold_text(Threshold(0.5, None, None, None, 64, False), ()) == (
        "Efficiency stays above 50 % up to 64 ranks (predicted)."
    )
    assert "by the lower end of the interval from 40 on" in threshold_text(
        Threshold(0.5, None, 40, None, 64, False), ()
    )


def test_thresholds_bounds_and_costs_are_marked_where_they_rest_on_guesses():
    def told(guesses):
        yield threshold_text(Threshold(0.8, 12, 8, 20, 64, False), guesses)
        yield threshold_text(Threshold(0.5, None, None, None, 64, False), guesses)
        yield bound_text(FOUND.scaling.rows[0], guesses)
        yield cost_text(FOUND.costs[0], "cpu", guesses)

    assert all("(predicted*" in text for text in told(("that a hop costs nothing more",)))
    assert all("(predicted" in text and "*" not in text for text in told(()))


def test_one_rank_that_nobody_ran_is_marked():
    assert "rehearsed, not measured*." in base_text(replace(FOUND.scaling, base_modelled=True, base=MODELLED))
    assert "rehearsed, not measured." in base_text(replace(FOUND.scaling, base_modelled=False, base=MODELLED))


def test_a_check_says_whether_it_held():
    assert "+25.0 %, OUTSIDE the interval" in check_text(Checked(2, around(1.25e-3, 0.01), around(1e-3)))
    assert "predicted 1.00 ms [0.95, 1.05], measured 1.00 ms" in check_text(Checked(2, around(1e-3), around(1e-3)))


def test_what_of_the_checks_error_was_taken_out_is_said_once():
    answer = replace(full_answer(), checks=(Checked(2, around(1.1e-3), around(1e-3)),) * 2)
    assert checks_text(answer) == [check_text(one) for one in answer.checks]
    *_, last = checks_text(shifted(replace(answer, at=answer.at[:2]), 0.0513))
    numbers = " and ".join(f"{at.ranks} ranks by -5.0 %" for at in answer.at[:2]).replace(" and ", ", ")
    assert last == f"Predicted steps are corrected by what of that error is likely to last: {numbers}."
    assert checks_text(replace(answer, checks=())) == []


def test_numbers_keep_one_unit_with_their_interval():
    assert step_text(make_estimate(19.4e-3, 18.4e-3, 20.5e-3)) == "19.4 ms [18.4, 20.5]"
    assert range_text(make_estimate(0.00012, 0.00011, 0.00013)) == "0.00012 [0.00011, 0.00013]"
    assert range_text(make_estimate(1.0, 1.0, 1.0)) == "1.00"


def test_memory_says_whether_it_fits_and_why_there_is_no_largest_batch():
    row = PredictedMemory(8, 30 * MIB, None, 20 * MIB, False, 4, None, None, why_not="only one batch was rehearsed")
    assert memory_text(row) == "8 ranks: a rank needs 30.0 MiB (predicted) of 20.0 MiB: DOES NOT FIT."
    assert list(memory_notes([row, row])) == ["No largest batch: only one batch was rehearsed."]
    assert "not known" in memory_text(replace(row, peak_bytes=None))
    assert "measured) of 2.00 GiB: fits. Largest batch of a rank that fits: 256" in memory_text(FOUND.memory[0])


def test_a_peak_that_rests_on_guesses_is_marked_beside_the_number_and_the_guess_is_told():
    guesses = ("that NCCL needs nothing",)
    row = PredictedMemory(8, 30 * MIB, None, 40 * MIB, True, 4, None, None, guesses, guesses)
    assert "a rank needs 30.0 MiB (predicted*) of 40.0 MiB: fits" in memory_text(row)
    assert list(memory_notes([row])) == ["* guess: that NCCL needs nothing."]


def test_a_largest_batch_is_told_even_where_the_peak_of_the_batch_asked_for_is_not_known():
    row = PredictedMemory(8, None, None, 40 * MIB, None, 4, None, 12, ("a guess",))
    assert memory_text(row) == (
        "8 ranks: what a rank needs at most is not known. Largest batch of a rank that fits: 12 (predicted*, now 4)."
    )


def test_hours_are_of_gpus_only_where_there_are_some():
    assert "GPU-hours" in cost_text(FOUND.costs[0], "cuda", ())
    on_cores = cost_text(FOUND.costs[0], "cpu", ())
    assert "1 step (64 samples)" in on_cores and "rank-hours" in on_cores


def test_what_it_rests_on_has_refusals_warnings_guesses_and_sources():
    answer = full_answer()
    sourced = replace(answer, link=replace(answer.link, source="a data sheet"))
    assert [word for word, _ in rests_on(sourced, FOUND)] == ["Refused", "Warning", "Guess", "Source"]


def test_the_setting_and_the_base_are_told():
    answer = full_answer()
    assert title_text(answer) == "train.py on 2, 8, 64 ranks"
    assert title_text(replace(answer, at=())) == "train.py"
    assert setting_text(answer).startswith("Link slow, as given.")
    assert "measured. Strong scaling: all ranks share its batch" in base_text(FOUND.scaling)


def test_notes_on_changes_are_told_once_for_all_they_hold_for():
    notes = list(change_notes(FOUND.changes[-1]))
    assert any(note.startswith("accumulation x4, accumulation x2: so many times") for note in notes)
    assert any(note.startswith("Not told: computing in bf16") for note in notes)
    assert not any("5 MiB" in note for note in notes), "nothing more is said of what does not help"


def test_one_rank_alone_is_told_without_any_scaling():
    table = scaling_table(answer_of((1,)))
    assert base_text(table).endswith("measured.") and "scaling" not in base_text(table)
    assert "ideal" not in bounds_text(table, ())[0]


def test_an_ideal_step_is_told_only_where_samples_are_in_no_doubt():
    assert all("an ideal step" in text for text in bounds_text(FOUND.scaling, ()))
    assert not any("ideal" in text for text in bounds_text(scaling_table(shared_model()), ()))


def test_one_rank_a_node_is_one():
    answer = full_answer()
    alone = replace(answer.link, between=answer.link.inside, ranks_per_node=1)
    assert ", 1 rank a node." in setting_text(replace(answer, link=alone))
