"""Tests of `scalewise doctor` as a person uses it: true runs, and every kind of script that cannot be examined."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from factories import make_machine
from scalewise.cli import main
from scalewise.cli.request import requested_diagnosis
from scalewise.errors import BadRequest
from scalewise.jobs import diagnose
from scalewise.jobs.diagnose import ExaminedScript, diagnose_script
from scalewise.jobs.reporter import SILENT
from shared_servers import CommandLine

LOOP = """
import itertools, sys
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in itertools.count():
    {zero}
    model(torch.randn(8, 4)).pow(2).mean().backward()
    optimizer.step()
    {end}
"""
RIGHT = LOOP.format(zero="optimizer.zero_grad()", end="if step == 20: break")
FOREVER = LOOP.format(zero="optimizer.zero_grad()", end="__import__('time').sleep(0.01)")
FAILS = LOOP.format(zero="pass", end="if step == 20: raise ValueError('no more data')")
NEEDS = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--data', required=True)\np.parse_args()\n"
BYPASSED = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(12):
    optimizer.zero_grad()
    model.module(torch.randn(8, 4)).pow(2).mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""
ON_GPU = "import torch\ntorch.nn.Linear(2, 2).to('cuda')\n"


@pytest.fixture
def examined(
    jobs_share_servers: None, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """Examines a script by its text; the machine is not looked at, and one folder serves all."""
    home = tmp_path_factory.getbasetemp() / "doctor"
    home.mkdir(exist_ok=True)
    monkeypatch.chdir(home)

    machine = replace(make_machine(isa_cap="AVX512_CORE"), cores=tuple(sorted(os.sched_getaffinity(0))))
    monkeypatch.setattr(diagnose, "machine_facts", lambda _: machine)

    def run(text: str, *args: str, **options: object) -> ExaminedScript:
        Path("train.py").write_text(text)
        asked = {"ranks": 2, "plain": True, "on": None, "device": None, "limit_seconds": 60.0, "stall_seconds": 20.0}
        asked |= {"script": Path("train.py"), "args": args, "replays": False, "out": Path("runs"), **options}
        return diagnose_script(requested_diagnosis(asked), SILENT)

    return run


def exit_code(*words: str) -> int:
    """The exit code of a request that starts nothing."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Which script?"),
        (("missing.py",), "does not exist"),
        (("train.py", "--ranks", "0"), "0 is not a number of ranks"),
        (("train.py", "--limit", "0"), "--limit 0 is not a time"),
        (("train.py", "--stall", "-1"), "--stall -1 is not a time"),
        (("train.py", "--on", "cpu", "--device", "cuda"), "contradict"),
        (("broken.py",), "line 1"),
        (("train.sh",), "not by Python"),
        (("--explain", "no-such-check"), "There is no check"),
    ],
)
def test_a_request_that_cannot_be_done_is_a_sentence_and_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: Any, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {"train.py": RIGHT, "broken.py": "def f(:\n", "train.sh": "#!/bin/sh\n"}.items():
        Path(name).write_text(text)
    assert exit_code("doctor", *words) == 1
    told = capsys.readouterr()
    assert said in told.err and "Traceback" not in told.err and not told.out
    assert not Path("runs").exists()


def test_the_checks_can_be_listed_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("doctor", "--list") == 0
    assert "sync-every-micro-batch" in capsys.readouterr().out
    assert exit_code("doctor", "--explain", "sync-every-micro-batch") == 0
    assert "no_sync" in capsys.readouterr().out


def test_nothing_found_is_exit_code_0(examined: Any) -> None:
    result = examined(RIGHT)
    assert (result.exit_code, result.diagnosis.findings, result.words) == (0, (), ())
    assert result.diagnosis.steps == 21 and "never-zeroed" in result.diagnosis.passed


def test_a_script_over_its_limit_is_judged_by_what_was_seen(examined: Any) -> None:
    result = examined(FOREVER, limit_seconds=3.0)
    assert result.exit_code == 0 and result.diagnosis.steps > 20
    assert any("limit of 3 s" in note and "seen until then" in note for note in result.diagnosis.notes)


def test_a_script_that_fails_by_itself_is_still_judged_and_its_traceback_is_its_own(examined: Any) -> None:
    result = examined(FAILS)
    assert result.exit_code == 2
    assert [one.check for one in result.diagnosis.findings] == ["never-zeroed"]
    assert result.diagnosis.failure == "ValueError: no more data"
    assert result.words[0].startswith("Traceback") and result.words[-1] == "ValueError: no more data"
    assert not any("scalewise" in line for line in result.words)


def test_a_script_is_examined_with_a_change_from_outside(examined: Any) -> None:
    result = examined(RIGHT, change="threads:count=1")
    assert "Changed from outside: threads count=1." in result.diagnosis.notes
    with pytest.raises(BadRequest, match="'thread' is not a change"):
        examined("", change="thread:1")


def test_a_failure_without_findings_is_no_clean_bill(examined: Any) -> None:
    result = examined("raise SystemExit(3)")
    assert (result.exit_code, result.diagnosis.findings) == (2, ())


@pytest.mark.parametrize(
    ("text", "options", "sentence", "hint"),
    [
        (
            NEEDS,
            {},
            "the following arguments are required: --data",
            r"usage: train.py.*--data[\s\S]*doctor train.py -- ",
        ),
        ("import no_such_package.sub", {}, "needs the package no_such_package", "pip install no_such_package"),
        ("import time; time.sleep(60)", {"limit_seconds": 3.0}, "no optimizer step within 3 s.*line 1", "--limit"),
        ("import torch, time; time.sleep(60)", {"stall_seconds": 3.0}, "stood still for 3 s", "--stall"),
        ("print('trained elsewhere')", {}, "made no optimizer step", "arguments"),
        (
            "import torch\nw = torch.ones(1, requires_grad=True)\nfor _ in range(3): (w * 2).sum().backward()",
            {},
            "made no optimizer step",
            "update its parameters by hand",
        ),
    ],
)
def test_a_script_of_which_nothing_can_be_judged_is_a_sentence(
    examined: Any, text: str, options: dict[str, object], sentence: str, hint: str
) -> None:
    with pytest.raises(BadRequest, match=sentence) as caught:
        examined(text, **options)
    assert re.search(hint, caught.value.hint)


def test_a_script_that_wants_a_gpu_is_told_of_on_cpu_and_runs_with_it(examined: Any) -> None:
    result = examined(ON_GPU)
    assert result.exit_code == 2 and any("--on cpu" in note for note in result.diagnosis.notes)
    trained = examined(RIGHT.replace("Linear(4, 4)", "Linear(4, 4).cuda()").replace("8, 4)", "8, 4).cuda()"), on="cpu")
    assert trained.exit_code == 0 and trained.diagnosis.steps == 21
    assert any("on the CPU" in note for note in trained.diagnosis.notes)


def test_ranks_that_start_ranks_are_run_again_as_one_plain_process(examined: Any) -> None:
    text = "import torch\nimport torch.multiprocessing as mp\nif __name__ == '__main__':\n"
    text += "    getattr(mp, 'start' + '_processes')(print, nprocs=1, start_method='fork')\n"
    with pytest.raises(BadRequest, match="ranks that are forked are not watched"):
        examined(text, plain=False)
    made = max(Path("runs").iterdir(), key=lambda folder: folder.stat().st_mtime)
    assert [run.name for run in made.iterdir() if run.is_dir()] == ["train-ranks1-r0"]


def test_findings_on_the_terminal_as_json_as_a_page_and_as_sarif(scalewise: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BYPASSED)
    words = ["doctor", "train.py", "--no-replay", "--json", "--html", "out/page.html", "--sarif", "out/log.sarif"]
    ran = scalewise(*words, cwd=tmp_path)
    assert ran.returncode == 2, ran.stderr
    told = json.loads(ran.stdout)
    assert told["exit_code"] == 2 and told["findings"][0]["check"] == "ddp-bypassed"
    assert told["findings"][0]["where"]["line"] == 11
    assert "observing train.py with 2 ranks" in ran.stderr
    assert "ddp-bypassed" in (tmp_path / "out/page.html").read_text()
    (run,) = json.loads((tmp_path / "out/log.sarif").read_text())["runs"]
    assert run["results"][0]["ruleId"] == "ddp-bypassed"


@pytest.mark.processes
def test_ctrl_c_ends_the_examination_and_leaves_nothing_running(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FOREVER)
    command = [sys.executable, "-m", "scalewise", "doctor", "train.py", "--plain"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "observing" in line:
                break
        until = time.monotonic() + 60
        while not list(tmp_path.glob("runs/*/*/rank0.notes.jsonl")) and time.monotonic() < until:
            time.sleep(0.1)
        started = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=280)
    assert process.returncode == 2 and "interrupted" in said and "Traceback" not in said
    assert started and not [one for one in started if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


FAULT = (Path(__file__).parents[1] / "launch" / "scripts" / "watcher_fault.py").read_text()


def test_a_fault_of_the_watcher_is_told_as_that_and_no_check_passes_that_may_not_have_seen(examined: Any) -> None:
    told = examined(FAULT, "examination/forward")
    diagnosis = told.diagnosis

    assert not diagnosis.failure and not told.words and told.exit_code == 0
    (note,) = [note for note in diagnosis.notes if "left out" in note]
    assert note.startswith("Scalewise's own examination/forward failed in this script (AttributeError")
    assert note.endswith("what the doctor's checks need to know of forward passes.")
    assert diagnosis.passed == ()
    assert any("examination/forward had to be left out" in one.reason for one in diagnosis.unchecked)


def test_a_fault_of_the_watcher_that_cannot_be_left_out_is_no_failure_of_the_script(examined: Any) -> None:
    with pytest.raises(BadRequest) as refused:
        examined(BREAKS_REDIRECTION, on="cpu")
    assert refused.value.sentence.startswith("Scalewise's own redirect/precision failed inside the script")
    assert "the script is not to blame" in refused.value.hint


BREAKS_REDIRECTION = """
import torch
cells = lambda function: dict(zip(function.__code__.co_freevars, function.__closure__))
(subscriber,) = cells(torch.compile)["wrapped"].cell_contents.subscribers
cells(subscriber.act)["calls"].cell_contents = object()
torch.compile(torch.nn.Linear(1, 1))
"""
