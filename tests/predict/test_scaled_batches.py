"""Tests of batches as they were asked for: strong and weak scaling made up from rehearsals of the other."""

import pytest

from scalewise.predict.scaled_batches import scaled_batches
from taped_steps import ddp_tape, rehearsal

STRONG = {ranks: rehearsal(ddp_tape(ranks, 64 / ranks, forward=1e-3, per_sample=1e-3)) for ranks in (2, 8)}
WEAK = {ranks: rehearsal(ddp_tape(ranks, 64, forward=1e-3, per_sample=1e-3)) for ranks in (2, 8)}


def test_the_script_is_left_alone_unless_something_else_is_asked():
    assert scaled_batches(STRONG, "script", (), None).found == STRONG


def test_weak_scaling_of_a_strong_script_gives_each_rank_the_batch_of_one():
    made = scaled_batches(STRONG, "weak", (), 64.0)
    assert [one.typical.samples for one in made.found.values()] == [64, 64]
    assert made.other_batch == {2, 8}
    true = WEAK[8].typical.compute_seconds
    assert made.found[8].typical.compute_seconds == pytest.approx(true, rel=0.02)
    assert made.found[8].peak_bytes is None
    assert any("64 samples" in guess for guess in made.guesses)


def test_strong_scaling_of_a_weak_script_shares_the_batch_of_one():
    made = scaled_batches(WEAK, "strong", (rehearsal(ddp_tape(2, 8, forward=1e-3, per_sample=1e-3)),), 64.0)
    assert [one.typical.samples for one in made.found.values()] == [32, 8]
    assert made.found[8].typical.compute_seconds == pytest.approx(STRONG[8].typical.compute_seconds, rel=0.02)
    assert made.guesses == ()


def test_what_is_asked_and_so_already_stays_as_it_was_rehearsed():
    made = scaled_batches(WEAK, "weak", (), 64.0)
    assert made.found == WEAK
    assert not made.other_batch


def test_without_samples_it_is_said_that_it_cannot_be_done():
    made = scaled_batches({2: rehearsal(ddp_tape(2, None))}, "weak", (), None)
    assert "how many samples a step has is not known" in made.problem
