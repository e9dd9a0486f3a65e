"""The built-in training scripts: they train, say in one sentence what they refuse, and the tour can run them."""

import re

import pytest

from scalewise.plan.experiment import subject_folder
from scalewise.plan.find import find_suite
from scalewise.plan.suite import load_suite

SMALL = ("--dim", "16", "--depth", "2", "--batch", "16", "--steps", "5")


def _script(name: str) -> str:
    return str(subject_folder() / f"{name}.py")


def _losses(text: str) -> list[float]:
    return [float(value) for value in re.findall(r"^step \d+ [\d.]+ ms, loss ([\d.]+)$", text, re.M)]


@pytest.mark.parametrize("name", ["linear", "data_parallel", "layers"])
def test_a_subject_trains_in_one_plain_process(runner, name) -> None:
    ran = runner.raw(_script(name), *SMALL)

    assert (ran.codes, ran.stderr) == ((0,), ("",))
    losses = _losses(ran.stdout[0])
    assert len(losses) == 5 and losses[-1] < losses[0]


@pytest.mark.parametrize(
    "more",
    [
        ("--amp", "bfloat16"),
        ("--amp", "float16"),
        ("--amp", "bfloat16", "--scaler", "on"),
        ("--data", "loader"),
        ("--data", "loader", "--workers", "1"),
    ],
    ids=" ".join,
)
def test_every_variant_of_the_linear_trainer_trains(runner, more) -> None:
    ran = runner.raw(_script("linear"), *SMALL, *more)

    assert ran.codes == (0,), ran.stderr
    assert len(_losses(ran.stdout[0])) == 5


def test_accumulating_changes_no_loss_beyond_rounding(runner) -> None:
    whole, parts = runner.raw(_script("linear"), *SMALL), runner.raw(_script("linear"), *SMALL, "--accumulate", "4")

    assert _losses(parts.stdout[0]) == pytest.approx(_losses(whole.stdout[0]), abs=2e-6)


def test_ranks_train_as_one_process_with_the_global_batch_would(runner) -> None:
    """The only loss that is printed is rank 0's own, so the model is judged by it on the same rows."""
    one = runner.raw(_script("linear"), *SMALL)
    last = runner.raw(_script("linear"), *SMALL, "--accumulate", "2", "--sync", "last", ranks=2)
    every = runner.raw(_script("linear"), *SMALL, "--accumulate", "2", "--sync", "every", ranks=2)

    assert last.codes == every.codes == (0, 0), (last.stderr, every.stderr)
    assert _losses(last.stdout[0]) == pytest.approx(_losses(every.stdout[0]), abs=2e-6)
    assert last.stdout[1] == ""
    fell = [_losses(ran.stdout[0])[0] - _losses(ran.stdout[0])[-1] for ran in (one, last)]
    assert fell[1] == pytest.approx(fell[0], rel=0.5)


@pytest.mark.parametrize(
    ("name", "args", "ranks", "sentence"),
    [
        ("linear", ("--batch", "9", "--accumulate", "2"), 0, "--batch 9 is not a multiple of 2"),
        ("linear", ("--batch", "1"), 2, "--batch 1 is not a multiple of 2"),
        ("linear", ("--steps", "0"), 0, "--steps must be at least 1, not 0"),
        ("linear", ("--workers", "-1"), 0, "--workers must be 0 or more, not -1"),
        ("linear", ("--amp", "int8"), 0, "invalid choice: 'int8'"),
        ("linear", ("--bath", "9"), 0, "unrecognized arguments: --bath 9"),
        ("data_parallel", ("--dim", "x"), 0, "invalid int value: 'x'"),
        ("layers", ("--depth", "0"), 0, "--depth must be at least 1, not 0"),
    ],
)
def test_a_refusal_is_one_sentence_and_exit_code_2(runner, name, args, ranks, sentence) -> None:
    ran = runner.raw(_script(name), *args, ranks=ranks)

    assert set(ran.codes) == {2}
    for text in ran.stderr:
        assert sentence in text and text.startswith(f"{name}.py: ") and text.count("\n") == 1


def test_the_tour_asks_for_enough_steps_and_repeats_to_compare() -> None:
    tour = load_suite(find_suite("tour"))

    for experiment in tour.experiments:
        assert int(experiment.args[experiment.args.index("--steps") + 1]) >= 40
        assert experiment.repeat >= 2
    scaling = [one for one in tour.experiments if one.ranks == (1, 2, 4) and one.scaling == "strong"]
    assert len(scaling) >= 2 and all(len(one.changes) == 2 for one in scaling)
    assert any(one.mode == "python" for one in tour.experiments)
