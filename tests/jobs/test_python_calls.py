"""The calls from Python: the examples of docs/python.md as they stand there, bad arguments, notebooks and imports."""

import asyncio
import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

import scalewise
from factories import make_estimate
from rehearsal_specimen import full_answer
from scalewise.analysis.caveats import Caveat
from scalewise.analysis.comparison import Comparison
from scalewise.doctor.finding import Diagnosis, Finding
from scalewise.jobs.calls import CompareResult, DiagnoseResult, MeasureResult, RehearseResult
from scalewise.jobs.diagnose import ExaminedScript
from scalewise.predict.conclusion import conclusions_from

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
SCRIPT = """
import os, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

if "RANK" in os.environ:
    dist.init_process_group("gloo")
model = torch.nn.Linear(32, 1)
model = DDP(model) if dist.is_initialized() else model
optimizer = torch.optim.SGD(model.parameters(), 0.01)
batch = int(sys.argv[2]) if len(sys.argv) > 1 else 16
for step in range(40):
    optimizer.zero_grad()
    model(torch.randn(batch, 32)).pow(2).mean().backward()
    optimizer.step()
if dist.is_initialized():
    dist.destroy_process_group()
"""
CALLER = """
import scalewise

print([scalewise.measure("train.py", repeat=repeat).arm(1).step_seconds.steps for repeat in (1, 1, 2)])
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is found out about this machine, once for all tests: its precisions, and the link between ranks."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def here(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the scripts of the page."""
    for name in ("train.py", "faster.py"):
        (tmp_path / name).write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return tmp_path


def test_the_examples_of_the_page_run_and_print_what_they_say(here: Path, jobs_share_servers: None) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 4
    names: dict[str, object] = {}
    said = []
    for block in blocks:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            exec(block, names)
        assert not err.getvalue()
        said.append(out.getvalue())
    result, forecast = names["result"], names["forecast"]
    assert isinstance(result, MeasureResult)
    two = result.arm(ranks=2)
    assert two.step_seconds is not None and said[0].startswith(f"{two.step_seconds.value} {two.step_seconds.low} ")
    assert said[0].splitlines()[-1] == str(result.folder) and result.folder.is_dir()
    assert "<table>" in result._repr_html_() and repr(result).startswith("<train: 2 arms")
    assert isinstance(forecast, RehearseResult) and [row.ranks for row in forecast.rows] == [2, 64]
    assert "did you mean 'cuda'?" in said[2] and "Did you mean 'train.py'?" in said[2] and "ranks=0" in said[2]
    assert said[3].splitlines()[-1].startswith("train-ranks2-r0: made before")
    assert scalewise.show(result.folder).arm(2).step_seconds == two.step_seconds


@pytest.mark.processes
def test_a_program_without_a_guard_calls_it_several_times(here: Path) -> None:
    (here / "caller.py").write_text(CALLER)
    command = [sys.executable, "caller.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    one, same, twice = eval(done.stdout)
    assert 0 < one == same < twice


@pytest.mark.processes
def test_it_runs_in_a_thread_of_an_event_loop_and_on_the_loop_itself(here: Path) -> None:
    async def calls() -> tuple[Path, Path]:
        first = await asyncio.to_thread(scalewise.measure, "train.py", out=here / "thread")
        return first.folder, scalewise.measure("train.py", out=here / "loop").folder

    assert [folder.parent.name for folder in asyncio.run(calls())] == ["thread", "loop"]


def test_a_script_that_fails_is_a_result(here: Path, jobs_share_servers: None) -> None:
    (here / "broken.py").write_text("raise ValueError('no data')\n")
    result = scalewise.measure("broken.py")
    assert result.failed and "no data" in result.arms[0].reason and result.arms[0].speedup is None
    with pytest.raises(scalewise.Error, match="no arm of 7 ranks") as caught:
        result.arm(7)
    assert caught.value.hint == "Numbers of ranks that there are: 1."


@pytest.mark.processes
def test_importing_it_imports_nothing_heavy() -> None:
    code = (
        "import sys\nbefore = set(sys.modules)\nimport scalewise\n"
        "print(sorted(set(sys.modules) - before))\nscalewise.measure\n"
        "print(sorted({'torch', 'rich', 'click', 'matplotlib', 'typst'} & set(sys.modules)))\nprint(dir(scalewise))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=280, check=True)
    light, after, names = done.stdout.splitlines()
    assert light == "['scalewise']" and after == "[]"
    assert set(scalewise.__all__) <= set(eval(names))


BAD = {
    "everything at once": (
        lambda: scalewise.measure(
            "trian.py", "--batch 64", ranks=[0, 2], device="cdua", change=["workrs:4"], limit=-1, plain="yes"
        ),
        ["args='--batch 64'", "ranks=0", "'cuda'?", "workers", "limit=-1", "plain='yes'", "trian.py does not exist"],
        "Did you mean 'train.py'?",
    ),
    "a name that is none": (
        lambda: scalewise.measure("train.py", rank=2),
        ["'rank'", "mean 'ranks'?"],
        "It takes what",
    ),
    "a number twice": (lambda: scalewise.measure("train.py", ranks=[2, 2]), ["more than once"], ""),
    "no numbers": (lambda: scalewise.measure("train.py", ranks=[]), ["ranks is empty"], "ranks=[1, 2, 4]"),
    "a plain process of ranks": (lambda: scalewise.measure("train.py", plain=True, ranks=2), ["no ranks"], "Leave one"),
    "a suite": (lambda: scalewise.measure("homework2", turns=True), ["turns is for a script"], "suite's file"),
    "no suite": (lambda: scalewise.measure("homework9"), ["no suite 'homework9'"], "Did you mean"),
    "full": (lambda: scalewise.measure("train.py", full=True), ["full is for a suite"], "as it is"),
    "a link twice": (
        lambda: scalewise.measure("train.py", emulate_link="1ms,1GB/s", change=["emulate_link:1ms,1GB/s"]),
        ["by emulate_link and by change"],
        "Say it once.",
    ),
    "a link without a rate": (
        lambda: scalewise.measure("train.py", emulate_link="1ms"),
        ["lacks its rate"],
        "emulate_link='1ms,1GB/s'",
    ),
    "variables": (lambda: scalewise.measure("train.py", env={"A B": 1}), ["sets no variables"], "env={'BATCH'"),
    "the doctor": (
        lambda: scalewise.diagnose("trian.py", on="cpu", device="cuda", stall=0),
        ["contradict", "stall=0", "trian.py"],
        "Leave one of them out.",
    ),
    "a rehearsal": (
        lambda: scalewise.rehearse("train.py", ranks=2**20, link="nvlnk4", memory="80", also=["'x"], price=2.0),
        ["ranks=1048576", "'nvlink4'?", "memory=80 has no unit", "also='x", "price is there and steps is not"],
        "80GiB",
    ),
    "no folder": (lambda: scalewise.show("nowhere"), ["nowhere does not exist"], ""),
    "no difference": (
        lambda: scalewise.compare("a", "b", allow=["interventions"]),
        ["No difference is called 'interventions'."],
        "There are samples, model, precision, optimizers, changes.",
    ),
    "no path": (lambda: scalewise.compare("a", 5), ["b=5 is not a path"], ""),
}


@pytest.mark.parametrize("call", BAD)
def test_what_is_wrong_is_told_in_one_error(here: Path, call: str) -> None:
    make, parts, hint = BAD[call]
    with pytest.raises(scalewise.Error) as caught:
        make()
    assert [part for part in parts if part not in str(caught.value)] == []
    assert hint in caught.value.hint
    assert getattr(caught.value, "__notes__", []) == [text for text in [caught.value.hint] if text]
    assert "--" not in caught.value.sentence.replace("--batch", "").replace("--link nvlnk4", "")


def test_an_unknown_attribute_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'mesure'"):
        getattr(scalewise, "mesure")  # noqa: B009


def test_a_notebook_shows_text_of_scripts_as_text() -> None:
    evil = "<script>alert('&')</script>"
    finding = Finding("same-data", "wrong", evil, (), f"{evil}\nsecond line")
    diagnosed = DiagnoseResult(ExaminedScript(Diagnosis(f"/tmp/{evil}.py", (finding,), (), (), notes=(evil,)), (), 2))
    caveat = Caveat(evil, "doubt", evil, evil)
    step = make_estimate(0.01, 0.009, 0.011)
    pair = Comparison(evil, evil, 0.98, "faster", None, step, step, None, "", evil, (), (evil,), (caveat,))
    for shown in (diagnosed._repr_html_(), CompareResult((pair,))._repr_html_()):
        assert "<script" not in shown and "&lt;script&gt;" in shown
    assert "\nsecond line</code></pre>" in diagnosed._repr_html_()
    assert "<table>" in CompareResult((pair,))._repr_html_()
    assert "\n" not in repr(diagnosed)


def test_a_rehearsal_shows_its_table_its_changes_and_what_it_rests_on() -> None:
    answer = full_answer()
    result = RehearseResult(answer, conclusions_from(answer))
    shown = result._repr_html_()
    assert shown.count("<table>") == 2 and "predicted" in shown
    for guess in result.guesses:
        assert "Guess:" in shown, guess
    assert result.at(result.rows[0].ranks) is result.rows[0]
    with pytest.raises(scalewise.Error, match="no prediction for 31 ranks"):
        result.at(31)
    assert len(repr(result)) < 120
