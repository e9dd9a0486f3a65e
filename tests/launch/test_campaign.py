"""A campaign keeps what is finished, makes again what is not, and leaves nothing running whatever ends it."""

import dataclasses
import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
from launch_runner import Silent, machine_here, spec_of

from fake_launcher import FakeLauncher, training
from scalewise.errors import BadRequest
from scalewise.launch import campaign
from scalewise.launch.campaign import locked, run_campaign
from scalewise.launch.forkserver import Servers
from scalewise.records.codec import read_json, write_json
from scalewise.records.folder import SuiteFolder
from scalewise.records.load import load
from scalewise.records.outcome import Outcome
from scalewise.records.pulse import Pulse
from scalewise.records.spec import RunSpec


class Notes(Silent):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def started(self, index: int, total: int, spec: RunSpec) -> None:
        self.heard.append(f"started {spec.name} {index + 1}/{total}")

    def ended(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        self.heard.append(f"ended {spec.name} {outcome.kind}")

    def skipped(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        self.heard.append(f"skipped {spec.name} {outcome.kind}")

    def pulses(self, spec: RunSpec, pulses: tuple[Pulse, ...], seconds: float) -> None:
        self.heard.append(f"pulses {len(pulses)}")


def named(name: str, script: str, *args: str) -> RunSpec:
    return dataclasses.replace(spec_of(script, *args), name=name, ranks=1)


def make(specs: Sequence[RunSpec], folder: Path, servers: Servers) -> tuple[list[str], tuple[Outcome | None, ...]]:
    notes = Notes()
    outcomes = run_campaign(specs, SuiteFolder(folder), machine_here(), notes, servers)
    return [note for note in notes.heard if not note.startswith("pulses")], outcomes


def pretend(specs: Sequence[RunSpec], folder: Path) -> tuple[list[str], tuple[Outcome | None, ...]]:
    """The same with ranks that are on no host, each of which trains and leaves in order."""
    notes, launcher = Notes(), FakeLauncher(lambda _: [training()])
    outcomes = run_campaign(specs, SuiteFolder(folder), machine_here(), notes, launcher=launcher)
    return [note for note in notes.heard if not note.startswith("pulses")], outcomes


def test_a_failed_run_is_a_result_and_the_campaign_goes_on(tmp_path: Path, servers: Servers) -> None:
    specs = [named("bad", "failing.py"), named("good", "train_plain.py")]
    heard, outcomes = make(specs, tmp_path / "new" / "suite", servers)
    assert heard == ["started bad 1/2", "ended bad raised", "started good 2/2", "ended good finished"]
    assert [outcome and outcome.kind for outcome in outcomes] == ["raised", "finished"]
    heard, again = make(specs, tmp_path / "new" / "suite", servers)
    assert heard == ["skipped bad raised", "skipped good finished"]
    assert again == outcomes


def test_a_run_folder_holds_spec_machine_command_and_outcome(tmp_path: Path, servers: Servers) -> None:
    spec = named("one", "train_plain.py")
    _, outcomes = make([spec], tmp_path, servers)
    run = SuiteFolder(tmp_path).run("one")
    assert read_json(run.spec, RunSpec) == spec
    assert read_json(run.outcome, Outcome) == outcomes[0]
    assert run.machine.is_file() and "torchrun" in run.command.read_text()


@pytest.mark.parametrize("left", ["no outcome", "torn outcome", "interrupted"])
def test_an_unfinished_run_is_moved_aside_and_made_again(tmp_path: Path, left: str) -> None:
    spec = named("one", "train_plain.py")
    _, (outcome,) = pretend([spec], tmp_path)
    assert outcome is not None
    run = SuiteFolder(tmp_path).run("one")
    rows = run.rank(0).read_text()
    if left == "no outcome":
        run.outcome.unlink()
    elif left == "torn outcome":
        run.outcome.write_text(run.outcome.read_text()[:40])
    else:
        write_json(run.outcome, dataclasses.replace(outcome, kind="interrupted"))
    heard, _ = pretend([spec], tmp_path)
    assert heard == ["started one 1/1", "ended one finished"]
    assert (tmp_path / "one.partial-1" / "rank0.jsonl").read_text() == rows
    assert [folder.path.name for folder in SuiteFolder(tmp_path).runs()] == ["one"]


def test_a_run_that_could_not_start_is_tried_again_in_place(tmp_path: Path, servers: Servers) -> None:
    spec = named("one", "no_such_script.py")
    for _ in range(2):
        heard, _ = make([spec], tmp_path, servers)
        assert heard == ["started one 1/1", "ended one not_started"]
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["one"]


def test_another_run_under_the_same_name_is_refused(tmp_path: Path) -> None:
    pretend([named("one", "never_steps.py")], tmp_path)
    with pytest.raises(BadRequest, match="different run"):
        pretend([named("one", "never_steps.py", "--more")], tmp_path)


def test_a_second_campaign_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(BadRequest, match="another scalewise"):
        pretend([named("one", "never_steps.py")], tmp_path)


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadRequest, match="cannot write to") as caught:
        pretend([named("one", "never_steps.py")], tmp_path / "file" / "suite")
    assert "may write" in caught.value.hint


@pytest.mark.parametrize(
    ("number", "words"), [(errno.ENOSPC, "is full"), (errno.EROFS, "cannot write"), (errno.EACCES, "cannot write")]
)
def test_a_full_or_read_only_disk_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def fail(path: Path, record: object) -> None:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(campaign, "write_json", fail)
    with pytest.raises(BadRequest, match=words):
        pretend([named("one", "never_steps.py")], tmp_path)


def test_a_folder_that_is_removed_meanwhile_is_a_sentence(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(BadRequest, match="was removed"), campaign.disk_trouble_explained(gone):
        (gone / "outcome.json").write_text("{}")


def start_child(folder: Path) -> subprocess.Popen[str]:
    """A campaign in a process of its own, in the middle of its endless second run."""
    child = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("campaign_child.py")), str(folder)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert [child.stdout.readline() for _ in range(2)] == ["started fast\n", "started endless\n"]
    rows = SuiteFolder(folder).run("endless").rank(1)
    deadline = time.monotonic() + 60
    while not (rows.is_file() and rows.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return child


def gone(processes: list[psutil.Process], seconds: float) -> bool:
    return not psutil.wait_procs(processes, timeout=seconds)[1]


@pytest.mark.processes
def test_kill_minus_nine_leaves_no_process_and_the_next_campaign_continues(tmp_path: Path) -> None:
    child = start_child(tmp_path)
    offspring = psutil.Process(child.pid).children(recursive=True)
    assert len(offspring) >= 3  # the server and two ranks
    child.kill()
    child.communicate()
    assert gone(offspring, 60.0)
    child = start_again(tmp_path)
    assert "started endless" in child and "started fast" not in child
    assert list(tmp_path.glob("endless.partial-1/rank1.jsonl"))


def start_again(folder: Path) -> str:
    """Continues the campaign until its endless run has begun again, then interrupts it."""
    command = [sys.executable, str(Path(__file__).with_name("campaign_child.py")), str(folder)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    first = child.stdout.readline()
    child.send_signal(signal.SIGINT)
    rest, _ = child.communicate(timeout=280)
    return first + rest


@pytest.mark.processes
def test_ctrl_c_ends_the_run_as_interrupted_and_stops_the_campaign(tmp_path: Path) -> None:
    child = start_child(tmp_path)
    offspring = psutil.Process(child.pid).children(recursive=True)
    child.send_signal(signal.SIGINT)
    said, _ = child.communicate(timeout=280)
    assert "outcomes ['no_steps', 'interrupted', None]" in said
    assert gone(offspring, 60.0)
    assert read_json(SuiteFolder(tmp_path).run("endless").outcome, Outcome).kind == "interrupted"


def test_a_folder_that_is_removed_between_two_runs_is_missed_in_what_is_left(tmp_path: Path, servers: Servers) -> None:
    class Remover(Silent):
        def started(self, index: int, total: int, spec: RunSpec) -> None:
            if index == 1:
                shutil.rmtree(tmp_path / "suite")

    specs = [named(name, "train_plain.py") for name in ("a", "b", "c")]
    run_campaign(specs, SuiteFolder(tmp_path / "suite"), machine_here(), Remover(), servers)

    loaded = load(tmp_path / "suite")
    assert [run.spec.name for run in loaded.runs] == ["b", "c"]
    assert loaded.notes[0].startswith("1 of 3 runs that were made here is gone") and loaded.notes[0].count(": a;") == 1
