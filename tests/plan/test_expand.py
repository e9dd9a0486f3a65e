"""Tests of turning a suite into runs."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import make_machine
from scalewise.plan.expand import expand, folder_name, suite_id
from scalewise.plan.experiment import Experiment, Suite, changed
from scalewise.plan.words import parse_changes
from scalewise.records.spec import Nodes

SCRIPT = str(Path(__file__).resolve())
CWD = Path("/somewhere")


def suite_of(**changes):
    return Suite("s", (Experiment("e", SCRIPT, **changes),))


def names(plan):
    return [spec.name for spec in plan.runs]


def test_names_say_what_varies():
    suite = suite_of(
        axes={"dim": (1024,), "amp": (True,), "lr": (0.01,)},
        args=("--dim", "{dim}", "--ranks", "{ranks}"),
        env={"AMP": "{amp}", "LR": "{lr}"},
        ranks=(1, 2),
        changes=((), parse_changes("slow_rank:0.02@0")),
    )
    plan = expand(suite, make_machine(), CWD)
    assert names(plan) == [
        "e-dim1024-amptrue-lr0.01-ranks1-r0",
        "e-dim1024-amptrue-lr0.01-ranks2-r0",
        "e-dim1024-amptrue-lr0.01-slow_rank_0.02_0-ranks1-r0",
        "e-dim1024-amptrue-lr0.01-slow_rank_0.02_0-ranks2-r0",
    ]
    assert plan.runs[1].args == ("--dim", "1024", "--ranks", "2")
    assert plan.runs[1].env == {"AMP": "true", "LR": "0.01"}
    assert plan.runs[1].axes == {"dim": 1024, "amp": True, "lr": 0.01}
    assert plan.runs[1].cwd == "/somewhere"


@given(st.lists(st.text(max_size=30), min_size=1, max_size=6, unique=True), st.integers(1, 3))
def test_names_are_unique_and_safe_in_every_file_system(values, repeat):
    suite = suite_of(axes={"a": tuple(values)}, args=("{a}",), repeat=repeat, ranks=(1, 2))
    found = names(expand(suite, make_machine(), CWD))
    assert len({name.casefold() for name in found}) == len(values) * repeat * 2
    assert all(re.fullmatch(r"[A-Za-z0-9._+-]{1,160}", name) for name in found)


def test_repeats_are_interleaved_in_mirrored_order():
    plan = expand(suite_of(ranks=(1, 2), repeat=4), make_machine(), CWD)
    order = [(spec.repeat, spec.ranks) for spec in plan.runs]
    assert order[:4] == [(0, 1), (0, 2), (1, 2), (1, 1)]
    assert [repeat for repeat, _ in order] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [ranks for _, ranks in order[4:6]] == [ranks for _, ranks in order[6:8]][::-1]


def test_without_interleaving_an_arm_is_repeated_before_the_next():
    plan = expand(suite_of(ranks=(1, 2), repeat=2, interleave=False), make_machine(), CWD)
    assert [(spec.ranks, spec.repeat) for spec in plan.runs] == [(1, 0), (1, 1), (2, 0), (2, 1)]


def test_the_same_request_gives_the_same_plan():
    suite = suite_of(ranks=(1, 2, 4), repeat=5)
    assert expand(suite, make_machine(), CWD) == expand(suite, make_machine(), CWD)


def test_ranks_sit_on_equal_shares_and_too_many_are_marked():
    plan = expand(suite_of(ranks=(1, 2, 8)), make_machine(cores=4), CWD)
    one, two, eight = plan.runs
    assert one.shares == ((0, 1),) and one.threads_per_rank == 2
    assert two.shares == ((0, 1), (2, 3)) and not two.oversubscribed
    assert len(eight.shares) == 8 and eight.oversubscribed


def test_auto_takes_the_gpus_and_refuses_more_ranks_than_there_are():
    plan = expand(suite_of(ranks=(1, 2)), make_machine(gpus=1), CWD)
    (run,) = plan.runs
    assert (run.device, run.shares, run.threads_per_rank) == ("cuda", (), None)
    (refusal,) = plan.refusals
    assert refusal.what == "2 ranks"
    assert refusal.reason == "2 ranks need 2 GPUs and 1 is visible"
    assert "device cpu" in refusal.remedy


def test_ranks_may_share_a_gpu_and_are_then_emulated():
    plan = expand(suite_of(ranks=(1, 2), few_gpus="share"), make_machine(gpus=1), CWD)
    assert [(run.ranks, run.emulated) for run in plan.runs] == [(1, False), (2, True)]
    assert not plan.refusals


def test_more_devices_than_gpus_in_one_process_are_emulated():
    suite = suite_of(mode="python", axes={"devices": (1, 2)}, devices="{devices}")
    assert [run.emulated for run in expand(suite, make_machine(), CWD).runs] == [False, True]
    assert [run.emulated for run in expand(suite, make_machine(gpus=2), CWD).runs] == [False, False]


def test_ranks_may_be_reduced_to_the_gpus_and_the_run_says_what_was_asked():
    plan = expand(suite_of(ranks=(2, 4), few_gpus="reduce"), make_machine(gpus=1), CWD)
    assert [(run.ranks, run.emulated, run.asked) for run in plan.runs] == [(1, False, {"ranks": "2, 4"})]
    on_cpu = expand(suite_of(ranks=(2, 4), few_gpus="reduce"), make_machine(), CWD)
    assert [(run.ranks, run.asked) for run in on_cpu.runs] == [(2, {}), (4, {})]


def test_auto_takes_the_cpu_where_there_is_no_gpu():
    assert {spec.device for spec in expand(suite_of(ranks=(1, 2)), make_machine(), CWD).runs} == {"cpu"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"script": "/no/such.py"}, "the script /no/such.py does not exist"),
        ({"script": "/"}, "the script / is a folder"),
        ({"device": "cuda"}, "no GPU is visible"),
    ],
)
def test_an_experiment_that_cannot_run_is_refused_once_and_the_others_go_on(changes, reason):
    bad = replace(suite_of(ranks=(1, 2)).experiments[0], name="bad", **changes)
    plan = expand(Suite("s", (bad, *suite_of().experiments)), make_machine(), CWD)
    (refusal,) = plan.refusals
    assert (refusal.experiment, refusal.what) == ("bad", "all runs")
    assert reason in refusal.reason and refusal.remedy
    assert names(plan) == ["e-ranks1-r0"]


def test_slowing_a_rank_that_is_not_there_is_refused_for_that_arm_only():
    plan = expand(suite_of(ranks=(1, 2), changes=(parse_changes("slow_rank:1@1"),)), make_machine(), CWD)
    assert [spec.ranks for spec in plan.runs] == [2]
    assert plan.refusals[0].reason == "there is no rank 1 among 1"


def test_a_link_is_emulated_between_cpu_ranks_only():
    suite = suite_of(ranks=(2,), changes=((), parse_changes("emulate_link:1ms,1GB/s")))
    assert expand(suite, make_machine(gpus=2), CWD).refusals[0].remedy == "use device cpu"
    made = expand(suite, make_machine(), CWD)
    assert names(made) == ["e-ranks2-r0", "e-emulate_link_0.001s_1GB_s-ranks2-r0"]


def test_several_hosts_need_a_launcher_that_serves_them():
    nodes = Nodes(2, 0, "127.0.0.1", 29500)
    assert "one host" in expand(suite_of(), make_machine(), CWD, nodes=nodes).refusals[0].reason
    assert "one host" in expand(suite_of(ranks=(2,), nodes=(2,)), make_machine(), CWD).refusals[0].reason


def test_ranks_are_counted_over_all_hosts_which_are_an_axis():
    nodes, suite = Nodes(2, 0, "host", 29500), suite_of(launcher="torchrun", ranks=(2, 4), nodes=(1, 2))
    made = expand(suite, make_machine(4), CWD, nodes=nodes)
    assert names(made) == ["e-nodes1-ranks2-r0", "e-nodes1-ranks4-r0", "e-nodes2-ranks2-r0", "e-nodes2-ranks4-r0"]
    assert [(run.world_size, run.ranks, run.nodes and run.nodes.count) for run in made.runs] == [
        (2, 2, 1), (4, 4, 1), (2, 1, 2), (4, 2, 2),
    ]  # fmt: skip
    assert {len(share) for run in made.runs for share in run.shares} == {1}  # cores of a rank, in all arms alike


def test_ranks_lie_evenly_on_hosts_or_not_at_all():
    suite = suite_of(launcher="slurm", ranks=(3, 4), nodes=(2,))
    made = expand(suite, make_machine(4), CWD)
    assert [run.nodes for run in made.runs] == [Nodes(2, 0, "", 0)]
    assert made.refusals[0].reason == "3 ranks cannot be spread evenly over 2 hosts"
    by_hand = expand(suite_of(launcher="torchrun", ranks=(2,), nodes=(2,)), make_machine(4), CWD)
    assert "scalewise runs on 1" in by_hand.refusals[0].reason and "--node-rank" in by_hand.refusals[0].remedy


def test_the_id_changes_with_the_script_the_machine_and_the_request_and_with_nothing_else(tmp_path):
    script = tmp_path / "a.py"
    script.write_text("print(1)")
    suite, machine = Suite("s", (Experiment("e", str(script)),)), make_machine()
    plan = expand(suite, machine, CWD)
    first = suite_id(plan, machine)
    assert re.fullmatch("[0-9a-f]{8}", first)
    assert folder_name(suite, plan, machine) == f"s-{first}"
    assert suite_id(expand(replace(suite, title="other"), machine, CWD), machine) == first
    assert suite_id(expand(changed(suite, repeat=2), machine, CWD), machine) != first
    assert suite_id(plan, make_machine(versions={"torch": "2.14"})) != first
    script.write_text("print(2)")
    assert suite_id(plan, machine) != first


def test_a_misspelt_script_of_one_arm_is_refused_for_that_arm_only():
    suite = Suite("s", (Experiment("e", "course:{code}.py", axes={"code": ("practical6_ddp", "practical6_dpp")}),))
    plan = expand(suite, make_machine(), CWD)
    assert [spec.axes["code"] for spec in plan.runs] == ["practical6_ddp"]
    (refusal,) = plan.refusals
    assert refusal.what == "code practical6_dpp, 1 rank"
    assert (refusal.reason, refusal.remedy) == (
        "the course has no script practical6_dpp.py",
        "did you mean 'practical6_ddp.py'?",
    )


def test_an_inspected_run_follows_the_timed_ones_of_its_experiment():
    suite = suite_of(
        ranks=(1, 2),
        repeat=2,
        changes=((), parse_changes("remove_communication")),
        env={"STEPS": "40"},
        inspect=True,
        inspect_env={"STEPS": "{ranks}"},
    )
    plan = expand(suite, make_machine(), CWD)
    *timed, one, two = plan.runs
    assert len(timed) == 8 and not any(spec.inspected for spec in timed)
    assert [(spec.name, spec.inspected, spec.repeat, spec.env) for spec in (one, two)] == [
        ("e-ranks1-inspect", True, 0, {"STEPS": "1"}),
        ("e-ranks2-inspect", True, 0, {"STEPS": "2"}),
    ]


def test_a_case_sets_its_variables_together():
    suite = suite_of(cases={"small": {"DIM": "8"}, "large": {"DIM": "16{ranks}"}}, env={"DIM": "1", "X": "{case}"})
    runs = expand(suite, make_machine(), CWD).runs
    assert [(spec.axes, spec.env) for spec in runs] == [
        ({"case": "small"}, {"DIM": "8", "X": "small"}),
        ({"case": "large"}, {"DIM": "161", "X": "large"}),
    ]


def test_a_number_of_steps_ends_every_run_of_a_script():
    assert {run.enough_steps for run in expand(suite_of(steps=20), make_machine(), CWD).runs} == {20}
    assert {run.enough_steps for run in expand(suite_of(), make_machine(), CWD).runs} == {0}


def test_a_users_script_is_private_unless_asked_for_in_place_and_ours_are_left_alone():
    def uses(suite, **more):
        return {run.folder_use for run in expand(suite, make_machine(), CWD, **more).runs}

    assert uses(suite_of()) == {"private"}
    assert uses(suite_of(in_place=True)) == uses(changed(suite_of(), in_place=True)) == {"in_place"}
    assert uses(Suite("s", (Experiment("e", "scalewise:linear"),))) == {"plain"}
    several = Nodes(2, 0, "h", 1)  # whose ranks may share files by the folder
    assert uses(suite_of(launcher="torchrun"), nodes=several) == {"in_place"}


def test_ranks_beyond_the_cores_are_refused_where_the_experiment_says_so():
    plan = expand(suite_of(ranks=(1, 2, 4), few_cores="refuse"), make_machine(2), CWD)
    assert [(run.ranks, run.oversubscribed) for run in plan.runs] == [(1, False), (2, False)]
    assert [one.reason for one in plan.refusals] == ["4 ranks need 4 cores and 2 are here"]
    assert not expand(suite_of(ranks=(4,), few_cores="refuse"), make_machine(2, gpus=4), CWD).refusals


def test_on_gpus_other_values_may_count_and_an_inspected_run_has_its_own():
    suite = suite_of(env={"STEPS": "200"}, gpu_env={"STEPS": "2000"}, inspect=True, inspect_env={"STEPS": "8"})
    assert [run.env for run in expand(suite, make_machine(), CWD).runs] == [{"STEPS": "200"}, {"STEPS": "8"}]
    assert [run.env for run in expand(suite, make_machine(gpus=1), CWD).runs] == [{"STEPS": "2000"}, {"STEPS": "8"}]
