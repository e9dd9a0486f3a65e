"""Tests of planning rehearsals: what is asked for and is not here, in company, and named as what it is."""

from pathlib import Path

import pytest

from factories import make_machine
from scalewise.errors import BadRequest
from scalewise.plan.expand import expand
from scalewise.plan.experiment import Experiment, Suite
from scalewise.plan.suite import read_suite
from scalewise.plan.words import parse_changes
from scalewise.records.spec import Nodes, Rehearsed

SCRIPT = str(Path(__file__).resolve())


def rehearsed(machine, *, nodes=None, **changes):
    changes = {"ranks": (1, 2), "rehearse": (2, 4), **changes}
    plan = expand(Suite("s", (Experiment("e", SCRIPT, **changes),)), machine, Path("/somewhere"), nodes=nodes)
    return [spec for spec in plan.runs if spec.rehearsed is not None]


def test_as_many_keep_company_as_have_cores_of_their_own():
    two, four = rehearsed(make_machine(cores=2))
    assert [spec.name for spec in (two, four)] == ["e-rehearse2", "e-rehearse4"]
    assert four.rehearsed == Rehearsed(world_size=4, rank=0, ranks_per_node=4)
    assert four.ranks == 2 and four.shares == ((0,), (1,)) and four.threads_per_rank == 1
    assert not four.oversubscribed and not four.emulated


def test_cores_are_shared_out_as_for_the_measured_ranks():
    assert [spec.shares for spec in rehearsed(make_machine(cores=8), rehearse=(8,))] == [((0, 1, 2, 3), (4, 5, 6, 7))]


def test_nothing_is_rehearsed_where_all_of_it_can_be_measured():
    assert rehearsed(make_machine(cores=4), ranks=(1, 2, 4)) == []


def test_ranks_that_are_here_but_not_measured_are_no_check():
    assert [spec.rehearsed.world_size for spec in rehearsed(make_machine(cores=2), ranks=(1,))] == [2, 4]
    shares = [spec.shares for spec in rehearsed(make_machine(cores=2), ranks=(1,))]
    assert shares == [((0, 1),), ((0, 1),)]


def test_a_gpu_stands_for_eight_of_a_node():
    *_, spec = rehearsed(make_machine(gpus=1), rehearse=(16,))
    assert spec.ranks == 1 and spec.shares == () and spec.rehearsed.ranks_per_node == 8


def test_with_one_gpu_one_rank_is_rehearsed_as_well_for_the_check():
    found = rehearsed(make_machine(gpus=1), ranks=(1,), rehearse=(2, 4))
    assert [spec.rehearsed.world_size for spec in found] == [1, 2, 4]


def test_only_arms_with_nothing_changed_are_rehearsed_once_each_and_last():
    arms = tuple(map(parse_changes, ("none", "remove_communication")))
    changes = {"axes": {"a": (1, 2)}, "args": ("{a}", "{ranks}"), "changes": arms, "repeat": 3}
    found = rehearsed(make_machine(cores=2), **changes)
    assert [(spec.name, spec.args) for spec in found] == [
        ("e-a1-rehearse2", ("1", "2")),
        ("e-a1-rehearse4", ("1", "4")),
        ("e-a2-rehearse2", ("2", "2")),
        ("e-a2-rehearse4", ("2", "4")),
    ]
    assert all(spec.changes == () and spec.repeat == 0 for spec in found)


def test_torchrun_and_several_hosts_rehearse_nothing_by_themselves():
    nodes = Nodes(2, 0, "a", 1)
    assert rehearsed(make_machine(cores=2), nodes=nodes, launcher="torchrun") == []
    assert {spec.launcher for spec in rehearsed(make_machine(cores=2), launcher="torchrun")} == {"fork"}


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("rehearse = [4, 4]", "experiment[0].rehearse[1]: 4 is named twice"),
        ("rehearse = [1]", "experiment[0].rehearse[0]: 1"),
        ("rehearse = []", "experiment[0].rehearse: "),
        ('rehearse = [4]\nmode = "python"', "experiment[0].rehearse: mode 'python' starts one plain process"),
        ('rehearse = [4]\nchanges = ["remove_communication"]', "experiment[0].rehearse: only runs with nothing"),
    ],
)
def test_a_slip_in_rehearse_is_named(lines, problem):
    with pytest.raises(BadRequest) as caught:
        read_suite(f'name = "mine"\n[[experiment]]\nname = "e"\nscript = "train.py"\n{lines}\n', Path("/s/mine.toml"))
    assert problem in caught.value.sentence
