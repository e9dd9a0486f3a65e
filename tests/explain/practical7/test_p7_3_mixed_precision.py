"""P7.3: faster or slower, more memory or less, rescued gradients or none: as the numbers say."""

from course_evidence import precision_evidence, scaler_evidence
from scalewise.explain.practical7.p7_3_mixed_precision import why_mixed, why_scaler, without_scaler


def test_a_faster_half_precision_is_called_faster():
    answer = why_mixed(precision_evidence(half=0.010, full=0.020))
    assert "50.0 %" in answer.text and "less time" in answer.text
    assert (
        "the products in half precision, casts included, save 7.50 ms" in answer.text and "below 0" in answer.condition
    )


def test_a_slower_one_is_called_slower_against_the_textbook():
    answer = why_mixed(precision_evidence(half=0.030, full=0.020))
    assert "more time: the products in half precision, casts included, take 7.50 ms longer here" in answer.text
    assert "above 0" in answer.condition


def test_equal_times_are_no_difference():
    assert "no difference that can be told" in why_mixed(precision_evidence(half=0.02, full=0.02)).text


def test_copies_of_the_weights_explain_a_higher_peak():
    answer = why_mixed(precision_evidence(parts={"half_copy": 2000}, peaks=(20000, 21500)))
    assert "1.46 KiB more at the peak" in answer.text
    assert "copies of the weights outweigh" in answer.text


def test_shorter_activations_explain_a_lower_one():
    answer = why_mixed(precision_evidence(parts={"half_copy": 100}, peaks=(20000, 19600)))
    assert "less at the peak" in answer.text
    assert "Shorter activations save more" in answer.text


def test_lost_gradients_are_the_reason_for_a_scaler():
    answer = why_scaler(scaler_evidence(zeros=(5, 1000)))
    assert "100 % of the float16 gradients are exactly zero without the scaler and 0.50 % with it" in answer.text
    assert "by 65536, kept to the end" in answer.text


def test_without_lost_gradients_it_rescues_nothing():
    answer = why_scaler(scaler_evidence(zeros=(5, 5)))
    assert "rescues nothing here" in answer.text
    assert "<=" in answer.condition


def test_a_run_without_gradients_is_called_not_trained():
    answer = without_scaler(scaler_evidence())
    assert "called not trained" in answer.text and "With the scaler it is called stable" in answer.text


def test_where_both_train_the_scaler_makes_no_difference():
    answer = without_scaler(scaler_evidence(zeros=(5, 5), losses=(1.0, 1.0)))
    assert "no difference that shows" in answer.text
