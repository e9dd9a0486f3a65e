"""Which variables a rank gets, and which of them its script must not see."""

import dataclasses
import os
from pathlib import Path

import pytest
from launch_runner import spec_of

from scalewise.launch import environment
from scalewise.records.spec import Device, Nodes

SPEC = spec_of("train_ddp.py")
PLACES = (Path("/run/spec.json"), Path("/run"))


@pytest.mark.parametrize(
    ("ranks", "threads", "users", "expected"),
    [(2, 3, None, "3"), (2, 3, "8", "3"), (2, None, None, "1"), (2, None, "8", "8"), (1, None, None, None)],
)
def test_threads_are_set_as_torchrun_sets_them_unless_the_run_says_how_many(
    ranks: int, threads: int | None, users: str | None, expected: str | None
) -> None:
    spec = dataclasses.replace(SPEC, ranks=ranks, threads_per_rank=threads)
    user = {"OMP_NUM_THREADS": users} if users else {}
    assert environment.visible(spec, user).get("OMP_NUM_THREADS") == expected


@pytest.mark.parametrize(
    ("threads", "device", "user", "expected"),
    [
        (4, "cpu", {}, environment.SPINS),
        (1, "cpu", {}, None),
        (None, "cpu", {}, None),
        (4, "cuda", {}, None),
        (4, "cpu", {"GOMP_SPINCOUNT": "7"}, "7"),
        (4, "cpu", {"OMP_WAIT_POLICY": "active"}, None),
    ],
)
def test_threads_that_wait_leave_their_cores_to_messages_unless_the_user_says_how_they_wait(
    threads: int | None, device: Device, user: dict[str, str], expected: str | None
) -> None:
    spec = dataclasses.replace(SPEC, threads_per_rank=threads, device=device)
    assert environment.visible(spec, user).get("GOMP_SPINCOUNT") == expected


def test_a_suite_says_how_threads_wait_as_well() -> None:
    spec = dataclasses.replace(SPEC, threads_per_rank=4, env={"OMP_WAIT_POLICY": "passive"})
    assert "GOMP_SPINCOUNT" not in environment.visible(spec, {})
    spec = dataclasses.replace(SPEC, threads_per_rank=4, env={"GOMP_SPINCOUNT": "9"})
    assert environment.visible(spec, {})["GOMP_SPINCOUNT"] == "9"


def test_a_plain_python_subject_keeps_the_users_environment() -> None:
    spec = dataclasses.replace(SPEC, mode="python", ranks=1, device="cuda")
    assert environment.visible(spec, {"A": "1"}) == {"A": "1"}


def test_the_runs_own_variables_win_and_cpu_ranks_see_no_gpu() -> None:
    seen = environment.visible(dataclasses.replace(SPEC, env={"A": "2"}), {"A": "1", "CUDA_VISIBLE_DEVICES": "3"})
    assert (seen["A"], seen["CUDA_VISIBLE_DEVICES"]) == ("2", "")


def test_guards_of_the_measurement_are_hidden_and_named() -> None:
    hidden = environment.hidden(SPEC, {"PYTHONPATH": "/mine"}, *PLACES, "AVX2")
    assert hidden["GLOO_SOCKET_IFNAME"] == "lo"
    assert hidden["ONEDNN_MAX_CPU_ISA"] == "AVX2"
    assert set(hidden["SCALEWISE_HIDE"].split(",")) == {"GLOO_SOCKET_IFNAME", "ONEDNN_MAX_CPU_ISA"}
    assert hidden["PYTHONPATH"].split(os.pathsep) == [environment.INJECT, "/mine"]


def test_the_users_own_choice_is_left_alone() -> None:
    user = {"GLOO_SOCKET_IFNAME": "eth0", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    hidden = environment.hidden(SPEC, user, *PLACES, "AVX512_CORE")
    assert hidden["SCALEWISE_HIDE"] == ""
    assert not set(user) & set(hidden)


def test_ranks_on_several_hosts_use_the_interface_by_which_they_reach_the_first() -> None:
    for address, name in (("127.0.0.1", "lo"), ("no.such.host.invalid", None)):
        spec = dataclasses.replace(SPEC, nodes=Nodes(2, 0, address, 29500))
        assert environment.hidden(spec, {}, *PLACES, "").get("GLOO_SOCKET_IFNAME") == name
        assert "GLOO_SOCKET_IFNAME" not in environment.hidden(spec, {"GLOO_SOCKET_IFNAME": "ib0"}, *PLACES, "")


def test_the_watcher_is_where_it_is_looked_for() -> None:
    assert (Path(environment.INJECT) / "sitecustomize.py").is_file()
