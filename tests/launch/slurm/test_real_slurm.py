"""Tests on a real Slurm of three hosts on this machine's loopback; `make cluster` starts one for people."""

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalewise.predict.link_file import link_from_file
from scalewise.records.codec import read_json
from scalewise.records.folder import SuiteFolder
from scalewise.records.load import load
from scalewise.records.outcome import Outcome
from slurm_cluster import Cluster, NoCluster, can_hide, missing, start

pytestmark = [
    pytest.mark.processes,
    pytest.mark.slurm,
    pytest.mark.skipif(bool(missing()), reason=f"no Slurm can be started here: {', '.join(missing())}"),
]
SCRIPTS = Path(__file__).parent.parent / "scripts"
# A run that trains nothing and takes no torch: how long it sleeps, and that it began, is all there is to see.
SLEEPS = """
import pathlib, sys, time
with open(pathlib.Path(__file__).with_name("began.log"), "a") as log:
    log.write(sys.argv[1] + "\\n")
time.sleep(float(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    apart = tmp_path_factory.mktemp("apart") if can_hide() else None
    try:
        made = start(tmp_path_factory.mktemp("cluster"), hosts=3, last_hides=apart)
    except NoCluster as problem:
        pytest.skip(f"no Slurm can be started here: {problem}")
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def folder(tmp_path: Path, cluster: Cluster) -> Iterator[Path]:
    (tmp_path / "sleeps.py").write_text(SLEEPS)
    shutil.copy(SCRIPTS / "train_ddp.py", tmp_path / "train.py")
    yield tmp_path
    for job in cluster.ask("squeue", "-h", "-o", "%A").split():
        with contextlib.suppress(RuntimeError):
            cluster.ask("scancel", job)
    wait_until(cluster.idle)


class Command:
    """One `scalewise` command, whose words can be waited for."""

    def __init__(self, cluster: Cluster, folder: Path, *words: str) -> None:
        self.log = folder / f"{time.monotonic_ns()}.log"
        self.out = self.log.with_suffix(".out")
        with open(self.log, "w") as log, open(self.out, "w") as out:
            command = [sys.executable, "-m", "scalewise", *words]
            self.process = subprocess.Popen(command, cwd=folder, env=cluster.environment, stdout=out, stderr=log)

    def said(self, text: str) -> "re.Match[str]":
        wait_until(lambda: self.process.poll() is not None or re.search(text, self.log.read_text()) is not None)
        found = re.search(text, self.log.read_text())
        assert found is not None, self.words()
        return found

    @property
    def job(self) -> str:
        return self.said(r"(?:submitted as|follows) job (\d+)")[1]

    def words(self) -> str:
        self.process.wait(280)
        return self.log.read_text() + self.out.read_text()

    def code(self) -> int:
        return self.process.wait(280)


def wait_until(true: object, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not true():  # type: ignore[operator]
        time.sleep(0.05)


def outcomes(folder: Path) -> dict[str, Outcome]:
    return {
        run.path.name: read_json(run.outcome, Outcome)
        for suite in (folder / "runs").glob("*")
        for run in SuiteFolder(suite).runs()
        if run.outcome.exists()
    }


def began(folder: Path) -> Counter[str]:
    return Counter((folder / "began.log").read_text().split())


def two_sleeps(folder: Path, *seconds: float) -> str:
    """A suite of runs that sleep for so long."""
    tables = [
        f'[[experiment]]\nname = "e{index}"\nscript = "sleeps.py"\nmode = "python"\nargs = ["e{index}", "{one}"]\n'
        for index, one in enumerate(seconds)
    ]
    (folder / "sleeps.toml").write_text('name = "sleeps"\n' + "".join(tables))
    return "sleeps.toml"


def begin_again(cluster: Cluster, job: str) -> None:
    """Spares a requeued job the two minutes for which Slurm lets it wait."""
    wait_until(lambda: "Reason=BeginTime" in cluster.ask("scontrol", "show", "job", "-o", job))
    wait_until(cluster.quiet)  # a host refuses a job of which it still has a part
    time.sleep(1.1)  # and one whose credential is of the second in which the last one was revoked
    cluster.ask("scontrol", "update", f"JobId={job}", "StartTime=now")


SLURM = ("--launcher", "slurm")


def test_a_suite_over_one_and_two_hosts_is_one_job_whose_runs_are_steps(cluster: Cluster, folder: Path) -> None:
    (folder / "s.toml").write_text('name="s"\n[[experiment]]\nname="e"\nscript="train.py"\nranks=[2]\nnodes=[1, 2]\n')
    words = ("run", "s.toml", *SLURM, "--slurm", "time=00:10:00", "--json")
    command = Command(cluster, folder, *words)
    assert command.code() in (0, 3), command.words()
    made = outcomes(folder)
    assert {name: one.hosts for name, one in made.items()} == {
        "e-nodes1-ranks2-r0": ("n1",), "e-nodes2-ranks2-r0": ("n1", "n2"),
    }  # fmt: skip
    assert all(one.measured and len(one.ranks) == 2 for one in made.values())
    (suite,) = (folder / "runs").glob("s-*")
    assert all(len(run.ranks) == 2 and all(rank.steps for rank in run.ranks) for run in load(suite).runs)
    assert json.loads(command.out.read_text())["experiments"][0]["axes"] == ["nodes"]
    again = Command(cluster, folder, *words)
    assert again.code() == command.code() and f"made before, by job {command.job}" in again.words()
    assert again.out.read_text() == command.out.read_text()


def test_two_jobs_at_once_on_one_host_do_not_take_each_others_ports(cluster: Cluster, folder: Path) -> None:
    shared = ("--slurm", "exclusive=no,nodelist=n1")
    pair = [
        Command(cluster, folder, "run", "train.py", "--ranks", "2", *SLURM, *shared, "--out", name)
        for name in ("a", "b")
    ]
    assert [command.code() in (0, 3) for command in pair] == [True, True], [one.words() for one in pair]


def test_the_doctor_examines_ranks_on_two_hosts(cluster: Cluster, folder: Path) -> None:
    command = Command(cluster, folder, "doctor", "train.py", "--ranks", "2", "--nodes", "2", "--no-replay", *SLURM)
    assert command.code() in (0, 2) and "observed" in command.words(), command.words()
    assert [one.hosts for one in outcomes(folder).values()] == [("n1", "n2")]


def test_what_lies_between_hosts_is_measured_into_a_file_for_rehearse(cluster: Cluster, folder: Path) -> None:
    command = Command(cluster, folder, "machine", "--measure", "--nodes", "2", *SLURM)
    assert command.code() == 0 and "--link-file runs/link-2-hosts.toml" in command.words(), command.words()
    link = link_from_file(folder / "runs" / "link-2-hosts.toml", per_node=2)
    places = [(one.ranks, one.nodes) for one in link.curves]
    inside = max(ranks for ranks, nodes in places if nodes == 1)  # as many as a host has cores for
    assert link.between is not None and {(2, 1), (2, 2), (2 * inside, 2)} <= {*places}


def test_a_job_in_the_queue_says_why_and_whoever_follows_may_leave_and_come_back(
    cluster: Cluster, folder: Path
) -> None:
    cluster.ask("sbatch", "--nodes=3", "--exclusive", "--output=/dev/null", "--wrap=sleep 300")
    words = ("run", "sleeps.py", "--plain", *SLURM, "--", "one", "0")
    first = Command(cluster, folder, *words)
    first.said(r"waits in the queue: .*(Resources|Priority)")
    first.process.send_signal(signal.SIGINT)
    assert first.code() == 2 and f"scancel {first.job} ends it" in first.words()
    second = Command(cluster, folder, *words)
    assert second.job == first.job and second.said("follows job")
    second.process.kill()
    second.process.wait()
    third = Command(cluster, folder, *words)
    assert third.job == first.job
    third.said("waits in the queue")
    cluster.ask("scancel", first.job)
    assert third.code() == 2 and f"Job {first.job} was cancelled" in third.words()
    assert "Traceback" not in third.words() and not (folder / "began.log").exists()


def test_a_requeued_job_keeps_what_is_finished_and_makes_the_rest(cluster: Cluster, folder: Path) -> None:
    command = Command(cluster, folder, "run", two_sleeps(folder, 0, 4), *SLURM)
    job = command.job
    wait_until(lambda: (folder / "began.log").exists() and began(folder)["e1"] == 1)
    cluster.ask("scontrol", "requeue", job)
    command.said("was preempted or requeued")
    begin_again(cluster, job)
    assert command.code() in (0, 2), command.words()
    assert began(folder) == {"e0": 1, "e1": 2}
    assert [one.kind for one in outcomes(folder).values()] == ["no_steps", "no_steps"]


def test_a_host_that_goes_down_costs_the_run_that_it_made(cluster: Cluster, folder: Path) -> None:
    command = Command(cluster, folder, "run", two_sleeps(folder, 0, 4), *SLURM)
    wait_until(lambda: (folder / "began.log").exists() and began(folder)["e1"] == 1)
    cluster.ask("scontrol", "update", "NodeName=n1", "State=DOWN", "Reason=test")
    command.said("was preempted or requeued|A host of job")
    begin_again(cluster, command.job)
    assert "Traceback" not in command.words()
    cluster.ask("scontrol", "update", "NodeName=n1", "State=RESUME")
    assert began(folder) == {"e0": 1, "e1": 2}, command.words()


def test_a_host_that_goes_down_twice_is_left_out(cluster: Cluster, folder: Path) -> None:
    command = Command(cluster, folder, "run", two_sleeps(folder, 0, 4), *SLURM)
    for times in (1, 2):
        wait_until(lambda times=times: (folder / "began.log").exists() and began(folder)["e1"] == times)  # type: ignore[misc]
        cluster.ask("scontrol", "update", "NodeName=n1", "State=DOWN", "Reason=test")
        wait_until(lambda times=times: command.log.read_text().count("n1 failed while job") == times)  # type: ignore[misc]
        wait_until(cluster.quiet)
        cluster.ask("scontrol", "update", "NodeName=n1", "State=RESUME")
        wait_until(cluster.idle)
        begin_again(cluster, command.job)
    assert command.code() in (0, 2) and "n1 failed more than once" in command.words(), command.words()
    assert began(folder) == {"e0": 1, "e1": 3}
    assert [one.hosts for one in outcomes(folder).values()] == [("n1",), ("n2",)]


def test_a_job_that_is_nearly_out_of_time_begins_no_further_run(cluster: Cluster, folder: Path) -> None:
    words = ("run", two_sleeps(folder, 3, 0), *SLURM)
    command = Command(cluster, folder, *words)
    job = command.job
    wait_until(lambda: (folder / "began.log").exists())
    cluster.ask("scancel", "--signal=USR1", "--batch", job)  # what Slurm sends a minute before the end
    assert command.code() == 2 and f"The time of job {job} was nearly over" in command.words()
    assert began(folder) == {"e0": 1}
    rest = Command(cluster, folder, *words)
    assert rest.job != job and rest.words() and began(folder) == {"e0": 1, "e1": 1}


def test_a_job_that_may_run_again_goes_on_by_itself_when_its_time_is_over(cluster: Cluster, folder: Path) -> None:
    command = Command(cluster, folder, "run", two_sleeps(folder, 3, 0), *SLURM, "--slurm", "resubmit=1")
    wait_until(lambda: (folder / "began.log").exists())
    cluster.ask("scancel", "--signal=USR1", "--batch", command.job)
    begin_again(cluster, command.job)
    assert command.code() in (0, 2), command.words()
    assert began(folder) == {"e0": 1, "e1": 1}, command.words()
    assert command.words().count("submitted as") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--slurm", "partition=nope"), "There is no partition 'nope'"),
        (("--slurm", "partition=short,time=00:30:00"), "more than the partition short allows"),
        (("--nodes", "4", "--ranks", "4"), "has 3 hosts, and 4 were asked for"),
    ],
)
def test_what_can_be_known_is_refused_before_queueing(
    cluster: Cluster, folder: Path, words: tuple[str, ...], said: str
) -> None:
    command = Command(cluster, folder, "run", "train.py", *SLURM, *words)
    assert command.code() == 1 and said in command.words(), command.words()
    assert cluster.ask("squeue", "-h") == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [(("--ranks", "3", "--nodes", "2"), "cannot be spread evenly"), (("--nodes", "0"), "no number of hosts")],
)
def test_the_doctor_queues_nothing_that_it_could_not_examine(
    cluster: Cluster, folder: Path, words: tuple[str, ...], said: str
) -> None:
    command = Command(cluster, folder, "doctor", "train.py", *SLURM, *words)
    assert command.code() == 1 and said in command.words() and "submitted" not in command.words()


@pytest.mark.skipif(not can_hide(), reason="no folder can be hidden from a host here: unshare --mount is not allowed")
def test_a_folder_that_is_not_shared_is_a_sentence(cluster: Cluster, folder: Path) -> None:
    apart = next(cluster.folder.parent.glob("apart*"))
    shutil.copy(folder / "sleeps.py", apart)
    words = ("run", "sleeps.py", "--plain", *SLURM, "--slurm", "partition=apart", "--", "one", "0")
    command = Command(cluster, apart, *words)
    assert command.code() == 1 and "does not see" in command.words(), command.words()
    assert "file system that all hosts share" in command.words()
