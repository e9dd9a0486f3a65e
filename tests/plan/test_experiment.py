"""Tests of the rule that makes a model smaller where the machine cannot carry it."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from factories import make_machine
from scalewise.plan.experiment import (
    BYTES_PER_WEIGHT,
    SMALLEST,
    Experiment,
    Shrink,
    Suite,
    changed,
    shrunk,
    subject_names,
)
from scalewise.records.machine import GpuFacts

LARGE = {"DIM": "8192", "DEPTH": "8", "BATCH": "64", "STEPS": "40"}
RULE = Shrink(4)


def fitting_dim(machine, device="cpu", ranks=4, env=LARGE, rule=RULE):
    return int(shrunk(env, rule, machine, device, ranks)[0]["DIM"])


def test_two_cores_carry_1024_and_sixteen_carry_4096():
    assert fitting_dim(make_machine(cores=2)) == 1024
    assert fitting_dim(make_machine(cores=16, memory_bytes=2**36)) == 4096


def test_what_was_asked_is_kept_beside_what_fits_and_the_rest_is_left_alone():
    env, asked = shrunk(LARGE, RULE, make_machine(cores=2), "cpu", 4)
    assert env == LARGE | {"DIM": "1024"}
    assert asked == {"DIM": "8192"}


def test_nothing_is_changed_where_it_fits():
    small = LARGE | {"DIM": "1024", "DEPTH": "2"}
    assert shrunk(small, RULE, make_machine(cores=2), "cpu", 4) == (small, {})


def test_little_memory_shrinks_what_many_cores_would_carry():
    machine = make_machine(cores=1000, memory_bytes=2**32)
    dim = fitting_dim(machine, ranks=4)
    assert 4 * BYTES_PER_WEIGHT * dim**2 * 8 <= 2**31 < 4 * BYTES_PER_WEIGHT * (2 * dim) ** 2 * 8


def test_on_gpus_only_their_memory_counts():
    assert fitting_dim(make_machine(cores=1, gpus=1), "cuda") == 8192
    small = GpuFacts(0, "small", 2**33, "uuid")
    assert fitting_dim(make_machine(cores=1000, gpus=1), "cuda") == 8192
    assert fitting_dim(replace(make_machine(cores=1000), gpus=(small,)), "cuda") == 4096


def test_the_rule_is_stated_with_its_figure():
    assert "at most 4 GFLOP per core" in RULE.rule()
    assert f"{BYTES_PER_WEIGHT} x DIM^2 x DEPTH bytes" in RULE.rule()


@given(st.integers(1, 10**5), st.integers(1, 100), st.integers(1, 10**4), st.integers(1, 64), st.integers(1, 8))
def test_a_model_only_ever_gets_smaller_by_halves_and_never_tiny(dim, depth, batch, cores, ranks):
    env = {"DIM": str(dim), "DEPTH": str(depth), "BATCH": str(batch)}
    found = fitting_dim(make_machine(cores=cores), ranks=ranks, env=env)
    halves = [dim >> count for count in range(20)]
    assert found in halves
    assert found == dim or found >= SMALLEST


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
