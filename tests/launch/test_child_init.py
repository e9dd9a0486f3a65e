"""A forked rank is like a new interpreter: its surroundings, its end, and nothing of the run before."""

import json
import os
import subprocess
import sys

import pytest
from launch_runner import SCRIPTS, Launch


def run_plainly(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPTS / script)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=dict(os.environ),
        check=False,
    )


def test_nothing_of_a_run_is_left_in_the_next(launch: Launch) -> None:
    first = json.loads(launch("show_state.py", ranks=1).stdout())
    launch("leave_state.py", ranks=1)
    second = json.loads(launch("show_state.py", ranks=1).stdout())
    draws = [first.pop("draws"), second.pop("draws")]
    assert first == second
    assert second == {
        "dtype": "torch.float32",
        "grad": True,
        "environment": False,
        "cwd": str(SCRIPTS),
        "handler": True,
        "leaked": False,
        "threads": 1,
    }
    assert all(one != other for one, other in zip(*draws, strict=True))


def test_two_ranks_of_one_run_draw_different_seeds_as_new_interpreters_do(launch: Launch) -> None:
    run = launch("show_state.py")
    draws = [json.loads(run.stdout(rank))["draws"] for rank in (0, 1)]
    assert all(one != other for one, other in zip(*draws, strict=True))


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("script", ["say_goodbye.py", "failing.py", "bad_syntax.txt", "warning.py"])
def test_output_and_exit_code_are_those_of_plain_python(
    launch: Launch, monkeypatch: pytest.MonkeyPatch, script: str, unbuffered: str
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)  # which also decides when native code's output is written
    plain = run_plainly(script)
    run = launch(script, mode="python", ranks=1)
    assert run.stdout() == plain.stdout
    assert run.stderr() == plain.stderr
    assert run.outcome.ranks[0].exit_code == plain.returncode != 0


def test_a_plain_python_subject_sees_what_plain_python_sees(launch: Launch) -> None:
    plain = json.loads(run_plainly("dump.py").stdout)
    seen = json.loads(launch("dump.py", mode="python", ranks=1, device="cuda").stdout())
    for dump in (plain, seen):
        dump.pop("session")
        dump["environment"].pop("PYTEST_CURRENT_TEST", None)
        dump["cwd"] = ""
    assert seen == plain


def test_variables_read_at_start_get_a_server_of_their_own(launch: Launch) -> None:
    run = launch("dump.py", ranks=1, env={"PYTHONPATH": "/some/where", "EXTRA": "1"})
    seen = json.loads(run.stdout())
    assert "/some/where" in seen["path"]
    assert (seen["environment"]["PYTHONPATH"], seen["environment"]["EXTRA"]) == ("/some/where", "1")
    assert "EXTRA" not in os.environ


def test_a_script_that_ends_right_after_its_last_step_leaves_its_gloo_group_without_a_deadlock(launch: Launch) -> None:
    """Without `watch.exit_workarounds` about every second of these runs hung (torch 2.13)."""
    kinds = [launch("train_ddp.py", "2", shares=((0,), (0,)), stall_seconds=20.0).outcome.kind for _ in range(6)]
    assert kinds == ["finished"] * 6
