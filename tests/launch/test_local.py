"""Each kind of end that a run can come to, made to happen."""

import json
import signal

import psutil
import pytest
from launch_runner import SCRIPTS, Launch

from scalewise.launch import nvml
from scalewise.records.spec import Nodes


def test_a_correct_script_finishes_and_leaves_its_records(launch: Launch) -> None:
    run = launch("train_ddp.py", "4", shares=((0,), (0,)))
    assert (run.outcome.kind, run.outcome.first_failed_rank) == ("finished", None)
    assert [end.exit_code for end in run.outcome.ranks] == [0, 0]
    assert run.stdout(0) == run.stdout(1) != ""
    assert run.stderr(0) == ""
    assert {"rank0.stdout.log", "rank1.stderr.log"} <= set(run.outcome.logs)
    assert run.folder.rank(0).is_file() and run.folder.rank(1).is_file()


def test_a_plain_python_script_gets_one_process_and_no_torchrun_variables(launch: Launch) -> None:
    run = launch("train_plain.py", "--flag", "a b", mode="python", ranks=1)
    assert run.outcome.kind == "finished"
    assert run.stdout() == "plain ['--flag', 'a b'] False\n"


@pytest.mark.skipif(not nvml.facts(), reason="needs a GPU")
def test_a_rank_forked_from_the_server_can_use_its_gpu(launch: Launch) -> None:
    for _ in range(2):
        run = launch("train_cuda.py", ranks=1, device="cuda")
        assert (run.outcome.kind, run.stdout()) == ("finished", "trained on cuda:0\n"), run.stderr()


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("raise", "raised", "rank 1 of 2 raised ValueError: boom"),
        ("sigkill", "killed", "SIGKILL"),
        ("sigsegv", "killed", "SIGSEGV"),
        ("sigill", "killed", "SIGILL"),
        ("memory", "out_of_memory", "ran out of memory"),
        ("leave", "left_early", "exited 0 while others waited"),
        ("exit3", "raised", "exit code 3"),
        ("port", "raised", "port that is taken"),
    ],
)
def test_a_fault_of_rank_1_is_named_and_blamed_on_rank_1(launch: Launch, fault: str, kind: str, words: str) -> None:
    run = launch("fault.py", fault)
    assert (run.outcome.kind, run.outcome.first_failed_rank) == (kind, 1)
    assert words in run.outcome.sentence
    assert run.outcome.hint


def test_the_last_lines_of_the_failed_rank_are_its_traceback(launch: Launch) -> None:
    run = launch("fault.py", "raise")
    assert "ValueError: boom" in run.outcome.ranks[1].last_lines[-1]
    assert run.outcome.ranks[1].exit_code == 1


def test_sigill_hints_at_the_instruction_set(launch: Launch) -> None:
    assert "ONEDNN_MAX_CPU_ISA" in launch("fault.py", "sigill").outcome.hint


def test_a_rank_that_loops_for_ever_is_blamed_with_the_stack_of_every_rank(launch: Launch) -> None:
    run = launch("fault.py", "spin", stall_seconds=3.0)
    assert (run.outcome.kind, run.outcome.first_failed_rank) == ("hung", 1)
    assert run.outcome.ranks[1].stack[0].endswith("in spin")
    assert "all_reduce" in run.outcome.ranks[0].stack[0]
    assert [end.exit_code for end in run.outcome.ranks] == [None, None]


def test_a_hang_before_any_step_blames_the_rank_that_is_not_in_the_collective(launch: Launch) -> None:
    run = launch("wait_for_nobody.py", stall_seconds=3.0)
    assert (run.outcome.kind, run.outcome.first_failed_rank) == ("hung", 1)
    assert any("rank_one_is_busy" in frame for frame in run.outcome.ranks[1].stack)


def test_a_run_over_its_limit_is_timed_out_with_stacks_and_was_sampled_meanwhile(launch: Launch) -> None:
    run = launch("hang_alone.py", mode="python", ranks=1, limit_seconds=3.0)
    assert run.outcome.kind == "timed_out"
    assert any("stand_still" in frame for frame in run.outcome.ranks[0].stack)
    rows = [json.loads(line) for line in run.folder.samples.read_text().splitlines()]
    assert rows
    assert all(0 <= row["foreign"] <= row["busy"] <= 1 and len(row["rank_busy"]) == 1 for row in rows)


def test_a_child_that_a_rank_left_behind_is_ended_with_the_run(launch: Launch) -> None:
    assert launch("fault.py", "child").outcome.kind == "finished"
    assert not [one for one in psutil.process_iter(["cmdline"]) if "left-behind" in (one.info["cmdline"] or ())]


def test_a_script_that_never_steps_has_no_steps(launch: Launch) -> None:
    run = launch("never_steps.py")
    assert (run.outcome.kind, run.stdout()) == ("no_steps", "hello\n")


def test_a_syntax_error_is_shown_as_python_shows_it(launch: Launch) -> None:
    script = SCRIPTS / "bad_syntax.txt"
    run = launch(script.name, ranks=1)
    assert run.outcome.kind == "raised"
    assert run.stderr().splitlines() == [
        f'  File "{script}", line 1',
        "    def broken(:",
        "               ^",
        "SyntaxError: invalid syntax",
    ]


def test_a_missing_script_is_not_started_and_its_neighbour_suggested(launch: Launch) -> None:
    run = launch("train_dpd.py")
    assert run.outcome.kind == "not_started"
    assert "train_dpd.py does not exist" in run.outcome.sentence
    assert "train_ddp.py" in run.outcome.hint


def test_a_missing_working_folder_is_named(launch: Launch) -> None:
    run = launch("train_ddp.py", cwd="/no/such/folder")
    assert (run.outcome.kind, "/no/such/folder" in run.outcome.sentence) == ("not_started", True)


def test_several_nodes_are_refused_by_the_fork_launcher(launch: Launch) -> None:
    assert "torchrun" in launch("train_ddp.py", nodes=Nodes(2, 0, "127.0.0.1", 29500)).outcome.hint


def test_a_dead_server_ends_the_run_and_the_next_run_gets_a_new_one(launch: Launch) -> None:
    assert launch("never_steps.py").outcome.kind == "no_steps"
    ours = [one for one in psutil.Process().children() if "scalewise.watch.server" in " ".join(one.cmdline())]
    for server in ours:
        server.send_signal(signal.SIGSTOP)
        server.send_signal(signal.SIGKILL)
        server.wait(60)
    assert launch("never_steps.py").outcome.kind == "no_steps"
