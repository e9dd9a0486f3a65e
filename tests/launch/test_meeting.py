"""Hosts on which scalewise was started by hand: one plans; whichever is killed, the same commands make the rest."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalewise.records.codec import read_json
from scalewise.records.folder import SuiteFolder
from scalewise.records.outcome import Outcome

TESTS = str(Path(__file__).parent.parent)
CHILD = str(Path(__file__).with_name("meeting_child.py"))
ALL_MADE = "outcomes ['finished', 'finished', 'finished']"
pytestmark = pytest.mark.processes


class Host:
    """One of the two commands, and what it has said."""

    def __init__(self, out: Path, node_rank: int) -> None:
        self.log = out / f"host{node_rank}-{time.monotonic_ns()}.log"
        with open(self.log, "w") as log:
            words = [sys.executable, CHILD, str(out), str(node_rank)]
            self.process = subprocess.Popen(words, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": TESTS})

    def said(self, text: str, seconds: float = 60.0) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if text in self.log.read_text():
                return True
            assert self.process.poll() is None or text in self.log.read_text(), self.log.read_text()
            time.sleep(0.02)
        raise AssertionError(f"{text!r} was not said:\n{self.log.read_text()}")

    def words(self) -> str:
        self.process.wait(60)
        return self.log.read_text()


@pytest.fixture
def out(tmp_path: Path) -> Iterator[Path]:
    hosts.clear()
    yield tmp_path
    for host in hosts:
        host.process.kill()
        host.process.wait()


hosts: list[Host] = []


def host(out: Path, node_rank: int) -> Host:
    hosts.append(Host(out, node_rank))
    return hosts[-1]


def starts(out: Path) -> Counter[str]:
    return Counter((out / "suite" / "starts.log").read_text().splitlines())


@pytest.mark.parametrize("killed", [0, 1])
@pytest.mark.parametrize("moment", ["here", "started one", "ended one"])
def test_a_host_that_is_killed_at_any_point_is_started_again_and_nothing_is_lost(
    out: Path, killed: int, moment: str
) -> None:
    pair = [host(out, 0), host(out, 1)]
    (pair[killed] if moment == "here" else pair[0]).said(moment)
    pair[killed].process.kill()
    pair[killed].process.wait()
    before = {run.path.name for run in SuiteFolder(out / "suite").runs() if run.outcome.exists()}
    pair[killed] = host(out, killed)
    words = pair[0].words()
    if ALL_MADE not in words:  # the run that lost its host is still to be made
        assert "'interrupted'" in words and "Traceback" not in words
        pair[1].words()
        pair = [host(out, 0), host(out, 1)]
        words = pair[0].words()
    assert ALL_MADE in words and "attended True" in pair[1].words()
    kept = [name for name in before if read_json(SuiteFolder(out / "suite").run(name).outcome, Outcome).measured]
    assert all(starts(out)[f"{name} {node}"] == 1 for name in kept for node in (0, 1))


def test_a_host_whose_runs_are_all_made_waits_for_nobody(out: Path) -> None:
    pair = [host(out, 0), host(out, 1)]
    assert ALL_MADE in pair[0].words() and "attended True" in pair[1].words()
    made = starts(out)
    assert ALL_MADE in host(out, 0).words()  # alone
    assert "attended True" in host(out, 1).words()  # alone, too
    assert starts(out) == made


def test_ctrl_c_on_one_host_is_an_interrupted_run_that_names_it(out: Path) -> None:
    pair = [host(out, 0), host(out, 1)]
    pair[0].said("started one")
    pair[1].said("takes part in one")
    pair[1].process.send_signal(signal.SIGINT)
    pair[0].said("ended one interrupted")
    outcome = read_json(SuiteFolder(out / "suite").run("one").outcome, Outcome)
    assert "was interrupted" in outcome.sentence and "host 1" in outcome.sentence


def test_ctrl_c_ends_the_wait_for_a_host_that_does_not_come(out: Path) -> None:
    alone = host(out, 0)
    alone.said("started one")
    alone.process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in alone.words()
    assert not SuiteFolder(out / "suite").run("one").outcome.exists()
