"""Stability: the word follows the worst thing that was measured, and says by which rule."""

from dataclasses import replace

import pytest

from factories import make_run, make_suite
from inspection_factory import make_gradients
from scalewise.analysis.figures import RunFigures, gradients_of, loss_curve, stability, tolerance_of
from scalewise.analysis.summary import summarise
from scalewise.analysis.work import Precision


def figures(**changes: object) -> RunFigures:
    """One run of 40 steps as the analysis sees it."""
    run = make_run([0.01] * 40)
    found = summarise(make_suite(run)).experiments[0].runs[0]
    return replace(found, **{"precision": Precision(["float32"], ["float16"]), **changes})  # type: ignore[arg-type]


def test_a_run_whose_loss_follows_the_reference_is_stable():
    found = stability([figures()], figures())
    assert found is not None
    assert found.word == "stable"
    assert found.curve is not None and found.curve.same


def test_a_loss_beyond_what_rounding_explains_drifts():
    reference = figures()
    off = tuple(loss * 1.1 for loss in reference.losses if loss)
    found = stability([replace(reference, losses=off)], reference)
    assert found is not None and found.word == "drifts"
    assert "1.0e-01 > 3.9e-03" in found.condition


def test_steps_skipped_while_the_scale_is_sought_are_no_instability():
    scales = (65536.0, 32768.0, *(16384.0,) * 38)
    found = stability([figures(skipped_steps=2, scales=scales)])
    assert found is not None
    assert (found.word, found.late_skipped_steps, found.scale_cuts) == ("stable", 0, 2)


def test_steps_skipped_later_are():
    scales = (*(65536.0,) * 30, 32768.0, 16384.0, 8192.0, *(4096.0,) * 7)
    found = stability([figures(skipped_steps=4, scales=scales)])
    assert found is not None and found.word == "unstable"
    assert found.late_skipped_steps == 4


def test_scales_read_now_and_then_still_tell_early_skips():
    scales = (65536.0, None, None, 16384.0, *(None,) * 36)
    found = stability([figures(skipped_steps=2, scales=scales)])
    assert found is not None and (found.word, found.late_skipped_steps) == ("stable", 0)


def test_gradients_that_are_all_zero_train_nothing():
    found = stability([figures()], None, make_gradients(zeros=1000))
    assert found is not None and found.word == "not trained"
    assert "100.0%" in found.condition


def test_a_run_that_skipped_every_step_is_not_trained():
    found = stability([figures(skipped_steps=40)])
    assert found is not None and found.word == "not trained"


def test_a_loss_that_is_not_finite_and_was_used_has_diverged():
    found = stability([figures(non_finite_steps=3, skipped_steps=1, scales=(2.0, 1.0))])
    assert found is not None and found.word == "diverged"


def test_the_worst_of_several_runs_counts():
    found = stability([figures(), figures(skipped_steps=40)])
    assert found is not None and found.word == "not trained"


def test_no_run_has_no_stability():
    assert stability([]) is None


def test_curves_are_compared_where_both_are_known():
    curve = loss_curve([1.0, None, 2.0], [1.0, 5.0, 4.0], 0.1)
    assert curve is not None
    assert (curve.steps, curve.largest_distance, curve.within) == (2, 0.5, False)
    assert loss_curve([None], [1.0], 0.1) is None


def test_a_reference_of_zero_is_infinitely_far_unless_met():
    met, missed = loss_curve([0.0], [0.0], 0.1), loss_curve([1.0], [0.0], 0.1)
    assert met is not None and met.same
    assert missed is not None and missed.largest_distance == float("inf")


@pytest.mark.parametrize(
    ("autocast", "roundoff"),
    [((), 2**-24), (["bfloat16"], 2**-8), (["float16"], 2**-11)],
)
def test_the_coarsest_type_sets_the_tolerance(autocast, roundoff):
    assert tolerance_of(Precision(["float32"], autocast)) == 8 * roundoff


def test_a_precision_is_the_texts_that_tables_show_and_knows_the_type_of_products():
    mixed = Precision(["float32"], ["float16"])
    assert mixed == ("float32", "autocast float16")
    assert mixed.of_products == "float16" and Precision(["float32"]).of_products == "float32"
    assert Precision() == () and Precision().of_products == ""


def test_gradients_without_a_finite_norm_are_counted():
    found = gradients_of(make_gradients(non_finite=5, norm=float("inf")))
    assert found is not None and found.non_finite_steps == 3
    assert gradients_of(()) is None
