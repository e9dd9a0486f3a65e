"""torchrun as the launcher: the same records and outcomes, and the same for the script to see, as from the server."""

import dataclasses
import json
import re
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from launch_runner import Launch, Silent, machine_here, spec_of

from scalewise.launch.campaign import run_campaign
from scalewise.launch.forkserver import Servers
from scalewise.launch.local import TorchrunLauncher
from scalewise.launch.meeting import MetHosts, OwnLauncher, Planner, attend, meeting_folder
from scalewise.launch.torchrun import command_text, read_failures
from scalewise.records.folder import RunFolder, SuiteFolder
from scalewise.records.load import load
from scalewise.records.spec import Nodes

LOG = """
E1116 11:30:12.9 4270 torch/distributed/elastic/api.py:988] failed (exitcode: 1) local_rank: 1 (pid: 7) of
Failures:
[1]:
  time      : 2026-11-16
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 6)
------
Root Cause (first observed failure):
[0]:
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 7)
"""


def without_what_must_differ(text: str) -> Any:
    """Ports, run ids and paths of error files differ between any two runs."""
    seen = json.loads(text)
    variables = seen["environment"]
    assert re.fullmatch(r"\d+", variables["MASTER_PORT"])
    assert re.fullmatch(r"[0-9a-f-]{36}", variables["TORCHELASTIC_RUN_ID"])
    assert variables["TORCHELASTIC_ERROR_FILE"].endswith("error.json")
    for name in ("MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE"):
        variables[name] = "differs"
    return seen


def test_a_script_sees_the_same_under_both_launchers(launch: Launch) -> None:
    forked = launch("dump.py", "--an", "argument")
    started = launch("dump.py", "--an", "argument", launcher="torchrun")
    assert (forked.outcome.kind, started.outcome.kind) == ("no_steps", "no_steps")
    for rank in (0, 1):
        assert without_what_must_differ(forked.stdout(rank)) == without_what_must_differ(started.stdout(rank))


def test_a_correct_script_finishes_with_the_same_result(launch: Launch) -> None:
    started = launch("train_ddp.py", launcher="torchrun")
    assert started.outcome.kind in ("finished", "aborted_at_exit")
    assert started.stdout(1) == launch("train_ddp.py").stdout(1)
    assert started.folder.rank(1).is_file()
    assert not (started.folder.path / "torchrun").exists()


def test_a_failed_rank_is_named(launch: Launch) -> None:
    run = launch("fault.py", "raise", "untrained", launcher="torchrun")
    assert (run.outcome.kind, run.outcome.first_failed_rank) == ("raised", 1)
    assert "ValueError: boom" in run.outcome.sentence


def test_a_rank_that_left_in_order_is_blamed_for_the_failure_of_those_it_left(launch: Launch) -> None:
    run = launch("fault.py", "leave", "untrained", launcher="torchrun")
    assert (run.outcome.kind, run.outcome.first_failed_rank) == ("left_early", 1)
    assert run.outcome.ranks[1].exit_code == 0


def test_a_hang_is_seen_with_stacks(launch: Launch) -> None:
    run = launch("wait_for_nobody.py", launcher="torchrun", stall_seconds=5.0)
    assert (run.outcome.kind, run.outcome.first_failed_rank) == ("hung", 1)
    assert any("rank_one_is_busy" in frame for frame in run.outcome.ranks[1].stack)


def test_plain_python_in_a_new_interpreter_is_watched_too(launch: Launch) -> None:
    run = launch("train_plain.py", mode="python", ranks=1, launcher="torchrun")
    assert (run.outcome.kind, run.stdout()) == ("finished", "plain [] False\n")


def test_torchrun_that_finds_its_port_taken_is_not_started_and_says_so(launch: Launch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nodes = Nodes(1, 0, "127.0.0.1", taken.getsockname()[1])
        run = launch("train_ddp.py", launcher="torchrun", nodes=nodes)
    assert run.outcome.kind == "not_started"
    assert run.outcome.sentence.startswith("torchrun could not start")
    assert "choose another master port" in run.outcome.hint


@pytest.mark.processes
def test_two_hosts_make_a_run_together_and_one_of_them_writes_its_outcome(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        nodes = Nodes(2, 0, "127.0.0.1", free.getsockname()[1])
    spec = dataclasses.replace(spec_of("train_ddp.py"), launcher="torchrun", ranks=1, nodes=nodes)
    meeting = meeting_folder(tmp_path, nodes)
    machine, second = machine_here(), dataclasses.replace(nodes, node_rank=1)
    with Servers() as one, Servers() as two, ThreadPoolExecutor(1) as pool:

        def launcher_of(servers: Servers) -> OwnLauncher:
            return lambda run, node_rank: TorchrunLauncher(machine, servers, run.spec_on(node_rank))

        guest = pool.submit(attend, meeting, second, "", machine, launcher_of(two), print, lambda: False)
        with Planner(meeting, nodes, "") as planner:
            met = MetHosts(planner, machine, launcher_of(one))
            (outcome,) = run_campaign([spec], SuiteFolder(tmp_path / "suite"), machine, Silent(), launcher=met)
            planner.done(tmp_path / "suite", complete=True)
        assert guest.result() == (tmp_path / "suite", True)
    assert outcome is not None and outcome.measured and [end.rank for end in outcome.ranks] == [0, 1]
    assert len(outcome.hosts) == 2
    (run,) = load(tmp_path / "suite").runs
    assert [len(rank.steps) > 0 for rank in run.ranks] == [True, True]
    assert [len(list(run.folder.glob(name))) for name in ("outcome*.json", "samples*.jsonl", "pulse*")] == [1, 2, 2]


def test_the_first_failure_stands_in_front() -> None:
    assert read_failures(LOG) == ((1, 1), (0, -15))
    assert read_failures("all is well") == ()


def test_the_command_text_repeats_the_run(launch: Launch) -> None:
    run = launch("train_ddp.py")
    text = command_text(spec_of("train_ddp.py"), run.folder.spec, "", {})
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout.count(run.stdout(0).split()[1]) == 2
    if done.returncode == 0:  # torch itself aborts some correct scripts while they shut down
        records = RunFolder(Path(re.findall("records in (.*)", done.stdout)[0]))
        assert [rank for rank, _ in records.rank_files()] == [0, 1]


def test_the_command_text_quotes_what_a_shell_would_take_apart() -> None:
    spec = dataclasses.replace(spec_of("train_ddp.py", "a b", "$HOME"), env={"NAME": "it's"})
    text = command_text(spec, Path("/run/spec.json"), "AVX2", {})
    assert "'a b' '$HOME'" in text
    assert "NAME='it'\"'\"'s'" in text
    assert "ONEDNN_MAX_CPU_ISA=AVX2" in text
