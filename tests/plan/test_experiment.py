"""Tests of the plain values a suite becomes."""

from scalewise.plan.experiment import Experiment, Suite, changed, subject_names


def test_arms_are_every_combination_with_ranks_varying_fastest():
    experiment = Experiment("e", "x.py", axes={"a": (1, 2), "b": ("x",)}, ranks=(1, 2))
    assert [(arm.axes, arm.ranks) for arm in experiment.arms()] == [
        ({"a": 1, "b": "x"}, 1),
        ({"a": 1, "b": "x"}, 2),
        ({"a": 2, "b": "x"}, 1),
        ({"a": 2, "b": "x"}, 2),
    ]


def test_the_command_line_overrides_every_experiment_but_plain_processes_stay_one():
    suite = Suite("s", (Experiment("a", "x.py"), Experiment("b", "x.py", mode="python")))
    one, plain = changed(suite, ranks=(1, 2), repeat=3, device="cpu", launcher="torchrun").experiments
    assert (one.ranks, one.repeat, one.device, one.launcher) == ((1, 2), 3, "cpu", "torchrun")
    assert (plain.ranks, plain.repeat) == ((1,), 3)
    assert changed(suite) == suite


def test_subjects_are_named_by_their_files():
    assert "linear" in subject_names()
    assert not any(name.startswith("_") for name in subject_names())
