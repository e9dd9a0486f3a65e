"""The script of a job is a pure function: the command, the folder and the options, quoted for the shell."""

from pathlib import Path

import pytest

from factories import make_spec
from scalewise.errors import BadRequest
from scalewise.launch.launcher import HostLost, HostOutOfMemory, LaunchFailed, RankProcesses
from scalewise.launch.slurm.job import JobRequest, check_options, job_script, parse_options
from scalewise.launch.slurm.step import memory_kills_in, step_command, step_problem
from scalewise.launch.supervise import run_one
from scalewise.records.folder import RunFolder
from scalewise.records.submission import JobFolder

FOLDER = JobFolder(Path("/home/ada/my runs/.slurm-ab12"))


def script(*options: str) -> str:
    argv = ("/venv/bin/python", "-m", "scalewise", "run", "train.py", "--", "a b")
    return job_script(JobRequest(argv, "/home/ada", ("/home/ada/train.py",), 2, parse_options(options), "name"), FOLDER)


def header(*options: str) -> list[str]:
    return [line.removeprefix("#SBATCH --") for line in script(*options).splitlines() if line.startswith("#SBATCH")]


def test_it_asks_for_whole_hosts_unless_told_otherwise() -> None:
    assert {"nodes=2", "ntasks-per-node=1", "exclusive", "requeue", "job-name=name"} <= {*header()}
    assert "exclusive" not in header("exclusive=no") and "exclusive" not in header("cpus-per-task=4")
    assert "exclusive=user" in header("exclusive=user")


def test_options_reach_sbatch_as_they_are_and_ours_do_not() -> None:
    lines = header("partition=gpu,time=00:30:00,gres=gpu:a100:4,mail-type=END,FAIL", "resubmit=3", "contiguous")
    assert {"partition=gpu", "time=00:30:00", "gres=gpu:a100:4", "contiguous"} <= {*lines}
    assert not [line for line in lines if line.startswith("resubmit")]
    assert "-lt 3 ]" in script("resubmit=3") and "-lt 0 ]" in script()


def test_a_value_may_hold_commas() -> None:
    assert parse_options(["nodelist=n1,n2=x"]) == {"nodelist": "n1", "n2": "x"}
    assert parse_options(["gres=gpu:4,tmp:3,time=1"]) == {"gres": "gpu:4,tmp:3", "time": "1"}
    assert parse_options(["cpus_per_task=4"]) == {"cpus-per-task": "4"}


@pytest.mark.parametrize(("time", "seconds"), [("", 60), ("00:30:00", 60), ("00:02:00", 30), ("00:00:20", 10)])
def test_a_short_job_is_warned_later(time: str, seconds: int) -> None:
    assert f"signal=B:USR1@{seconds}" in header(*([f"time={time}"] if time else []))


def test_words_are_quoted_for_the_shell() -> None:
    text = script()
    assert "-m scalewise run train.py -- 'a b'" in text and "folder='/home/ada/my runs/.slurm-ab12'" in text
    assert "[ -e /home/ada/train.py ] || refuse" in text


@pytest.mark.parametrize(
    ("option", "said", "hint"),
    [
        ("nodes=3", "set by scalewise itself", "--nodes"),
        ("output=x", "set by scalewise itself", "Leave it out"),
        ("partion=gpu", "no option of sbatch", "partition"),
        ("time=tomorrow", "no time of Slurm", "00:30:00"),
        ("resubmit=often", "is no number", "resubmit=3"),
    ],
)
def test_an_option_that_cannot_be_is_refused(option: str, said: str, hint: str) -> None:
    with pytest.raises(BadRequest) as caught:
        check_options(parse_options([option]))
    assert said in caught.value.sentence and hint in caught.value.hint


def test_an_option_said_twice_is_refused() -> None:
    with pytest.raises(BadRequest, match="says time twice"):
        parse_options(["time=1", "time=2"])


def test_a_step_starts_one_process_on_each_host() -> None:
    words = step_command(("n1", "n2"), "/work")
    assert {"--nodes=2", "--ntasks=2", "--nodelist=n1,n2", "--overlap", "--kill-on-bad-exit=1"} <= {*words}


@pytest.mark.parametrize(
    ("log", "said", "lost"),
    [
        ("srun: error: Node failure on n2\nsrun: Force Terminated StepId=5.0", "n2 failed", True),
        ("slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-11-19T15:00:00 DUE TO TIME LIMIT ***", "time", True),
        ("slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-11-19T15:00:00 DUE TO PREEMPTION ***", "preem", True),
        ("slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-11-19T15:00:00 ***", "cancelled", True),
        ("slurmstepd: error: couldn't chdir to `/data/x': No such file or directory: going to /tmp", "/data/x", False),
        ("srun: error: Unable to create step for job 5: Invalid node", "srun ended with 1", False),
        ("", "it said nothing", False),
    ],
)
def test_the_end_of_a_step_has_words(log: str, said: str, lost: bool) -> None:
    problem = step_problem(log, 1)
    assert said in problem.sentence and isinstance(problem, HostLost) is lost


@pytest.mark.parametrize(
    ("log", "kills"),
    [
        (
            "slurmstepd: error: Detected 2 oom_kill events in StepId=7.1. Some of the step tasks have been OOM Killed.",
            3,
        ),
        ("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.1 cgroup.", 1),
        ("srun: error: n1: task 0: Out Of Memory", 1),
        ("srun: error: n1: task 0: Killed", 0),
    ],
)
def test_a_step_that_slurm_ended_for_memory_is_out_of_memory(log: str, kills: int) -> None:
    assert memory_kills_in(log) == kills
    assert isinstance(step_problem(log, 1), HostOutOfMemory) is bool(kills)
    problem = HostOutOfMemory("too much", "less")
    assert run_one(make_spec(), RunFolder(Path("x")), Refusing(problem), lambda *_: None, lambda: False).kind == (
        "out_of_memory"
    )


class Refusing:
    """A launcher that can start nothing."""

    def __init__(self, problem: LaunchFailed) -> None:
        self._problem = problem

    def start(self, *_: object) -> RankProcesses:
        raise self._problem
