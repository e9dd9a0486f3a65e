"""Tests of how samples are counted: by backward pass, at the module that is trained, or not at all."""

import pytest

from scalewise.records.draft import REASONS, Call, Pass, count_samples


def calls(*rows_of_roots: tuple[int | None, int | None], batches: tuple[int, ...] = (), **changes) -> Pass:
    """A pass after calls of (module, rows)."""
    made = [Call(time, root, rows) for time, (root, rows) in enumerate(rows_of_roots)]
    return Pass(made, batches=list(batches), **changes)


def told(*passes: Pass) -> tuple[int | None, int | None]:
    counted = count_samples(passes)
    return counted.samples, counted.root


def test_micro_batches_add_up():
    assert told(calls((0, 8)), calls((0, 8)), calls((0, 4))) == (20, 0)


def test_modules_called_one_after_the_other_see_the_same_samples():
    assert told(calls((0, 16), (1, 16), (2, 400))) == (16, 0)


def test_a_call_without_rows_leaves_the_next_one_to_count():
    assert told(calls((0, None), (1, 16))) == (16, 1)


def test_two_views_of_a_loaded_batch_are_one_batch():
    assert told(calls((0, 16), (0, 16), batches=(16,))) == (16, 0)


def test_parts_of_a_loaded_batch_add_up_to_it():
    assert told(calls((0, 10), (0, 6), batches=(16,))) == (16, 0)


def test_of_a_batch_of_graphs_the_graphs_count_and_not_their_nodes():
    assert told(calls((0, 70), (1, 16), drawn=[16])) == (16, 0)
    assert told(calls((0, 70), batches=(70,), drawn=[16])) == (70, 0)
    assert told(calls((0, 8), drawn=[16])) == (8, 0)


def test_batches_of_two_loaders_add_up():
    assert told(calls((0, 8), (0, 56), batches=(8, 56))) == (64, 0)


def test_a_module_called_once_tells_the_rows_of_one_that_is_unrolled():
    assert told(calls((0, 16), (1, 16), (1, 16), (1, 16))) == (16, 1)


def test_a_generator_that_only_feeds_the_critic_tells_the_rows_of_both_its_calls():
    assert told(calls((1, 16), (1, 16), fed=[16])) == (16, 1)


def test_two_passes_on_one_loaded_batch_count_once():
    assert told(calls((0, 16), batches=(16,)), calls((0, 16))) == (16, 0)


def test_a_closure_computes_the_same_loss_again():
    assert told(calls((0, 16), in_optimizer=True), calls((0, 16), in_optimizer=True)) == (16, 0)


def test_a_backward_without_a_call_of_its_own_adds_nothing():
    assert told(calls((0, 16)), Pass()) == (16, 0)


def test_files_that_do_not_name_modules_count_the_first_call_of_a_pass():
    assert told(calls((None, 16), (None, 16))) == (16, None)


@pytest.mark.parametrize(
    ("passes", "reason"),
    [
        ([Pass()], "no call"),
        ([], "no call"),
        ([calls((0, None))], "no rows"),
        ([calls((0, 16), (0, 16))], "several calls"),
        ([calls((0, 16), (0, 8), batches=(16,))], "several calls"),
        ([calls((0, 16)), calls((0, 16), (0, 16))], "several calls"),
    ],
)
def test_what_cannot_be_known_is_withheld_with_a_reason(passes, reason):
    counted = count_samples(passes)
    assert (counted.samples, counted.unknown) == (None, reason)
    assert reason in REASONS
