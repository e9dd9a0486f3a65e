"""P7.1: what the answers say follows from gradients, counts and times, and turns with them."""

from dataclasses import replace

from course_evidence import accumulation_evidence
from scalewise.explain.practical7.p7_1_accumulation import division_of, why_divide, why_skip, without_no_sync


def test_a_gradient_as_many_times_longer_as_there_are_micro_batches_is_explained_by_adding_up():
    answer = why_divide(accumulation_evidence(norms=(0.1, 0.4)))
    assert "4.00 times as long with 4 micro-batches" in answer.text
    assert "4 times too far" in answer.text
    assert "< 0.001" in answer.condition


def test_another_ratio_is_not_called_the_number_of_micro_batches():
    answer = why_divide(accumulation_evidence(norms=(0.1, 0.1)))
    assert "1.00 times as long" in answer.text
    assert "too far" not in answer.text
    assert ">= 0.001" in answer.condition


def test_the_direction_of_the_gradient_is_compared_too():
    found = division_of(accumulation_evidence())
    assert found is not None and found.same_direction


def test_the_loss_without_division_is_told_per_micro_batch():
    assert "ends at 0.9, below the 1 " in why_divide(accumulation_evidence()).text


def test_all_reduces_are_counted_with_and_without():
    text = why_skip(accumulation_evidence()).text
    assert "in 2 all-reduces with no_sync()" in text and "in 8 without: 4.00 times" in text
    assert "for the same training" in text


def test_training_that_differs_is_not_called_the_same():
    answer = why_skip(accumulation_evidence(drift=1.1))
    assert "did not train the same" in answer.text
    assert ">" in answer.condition


def test_a_slower_step_without_no_sync_is_priced_per_all_reduce():
    answer = without_no_sync(accumulation_evidence(plain=0.020))
    assert "more time" in answer.text and "1.67 ms" in answer.text
    assert "above 0" in answer.condition


def test_a_faster_step_without_no_sync_is_called_that():
    answer = without_no_sync(accumulation_evidence(plain=0.005))
    assert "less time" in answer.text and "not slower" in answer.text
    assert "below 0" in answer.condition


def test_equal_steps_are_no_difference():
    answer = without_no_sync(accumulation_evidence(plain=0.010))
    assert "no difference that can be told" in answer.text
    assert "holds 0" in answer.condition


def test_a_loss_that_is_no_number_without_the_division_is_called_diverged():
    evidence = accumulation_evidence(lost=True)
    assert "Training then diverged: 40 losses were not finite." in why_divide(evidence).text


def test_rounding_that_training_lets_grow_is_not_called_other_training():
    evidence = accumulation_evidence()
    analysis = evidence.analysis
    experiments = tuple(replace(one, runs=tuple(map(drifting, one.runs))) for one in analysis.experiments)
    answer = why_skip(replace(evidence, analysis=replace(analysis, experiments=experiments)))
    assert "for the same training: the first 5 losses differ by" in answer.text
    assert "training lets that grow" in answer.text


def drifting(run):
    """Losses without no_sync() that leave the others by rounding at first, and by far more in the end."""
    if "no_sync0" not in run.name:
        return run
    return replace(run, losses=tuple(loss * (1 + 1e-8 * 2**step) for step, loss in enumerate(run.losses)))
