"""The worked examples of CONTRIBUTING.md, written into a copy of the package and run there."""

import ast
import csv
import importlib.util
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from torch import nn

import scalewise
from doctor.corpus_scripts import fixed_text
from run_folders import write_run
from scalewise.records.load import Run, load
from scalewise.report.build_document import evidence_of
from scalewise.watch import wrappers
from test_architecture import fragments

ROOT = Path(scalewise.__file__).parent
PAGE = Path(__file__).parent.parent / "CONTRIBUTING.md"
BLOCK = re.compile(r'^```(\w+) title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
BROKEN = "tests/doctor/corpus/broken/checkpoint_every_step.py"
SECTION = "src/scalewise/report/sections/slowest_steps.py"
WRAPPER = "src/scalewise/watch/wrappers/sharded.py"
# What the launcher's ranks run: they find each other, train, and print what the tool has told them.
RANKS = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
print(os.environ["SEAT"], "of", dist.get_world_size())
dist.destroy_process_group()
"""
# Runs the verbs one after another in one process, so that they share the fork server and what is known of the machine.
VERBS = """
import contextlib, io, json, sys
from scalewise.cli import main
from scalewise.jobs import diagnose, measure
from scalewise.launch.forkserver import Servers

def said(words):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main(words)
    return out.getvalue()

with Servers() as servers:
    facts = measure.machine_facts(servers)
    for job in (diagnose, measure):
        job.Servers, job.machine_facts = lambda: contextlib.nullcontext(servers), lambda _: facts
    print(json.dumps([said(words) for words in json.loads(sys.argv[1])]))
"""
COMMANDS = {
    "mistake": ["doctor", "mistake.py", "--plain", "--no-replay", "--json"],
    "fixed": ["doctor", "fixed.py", "--plain", "--no-replay", "--json"],
    "change": ["run", "fixed.py", "--plain", "--change", "slow_storage:0.02", "--out", "changed"],
    "suite": ["run", "batch", "--out", "measured"],
    "report": ["report", "measured", "--format", "tables"],
    "launcher": ["run", "ranks.py", "--ranks", "2", "--launcher", "tool", "--out", "launched", "--json"],
}


def examples() -> list[tuple[str, str, str]]:
    """Language, path and text of each example."""
    page = PAGE.read_text(encoding="utf-8")
    found = BLOCK.findall(page)
    assert len(found) == len(re.findall(r"^```.*title", page, re.MULTILINE)), "a block that is not read"
    return found


def text_of(path: str) -> str:
    (text,) = (text for _, name, text in examples() if name == path)
    return text


def write_examples(root: Path) -> None:
    """Writes every file, and changes the lines that a diff names, each of which must be there once."""
    for language, path, text in examples():
        file = root / path
        if language != "diff":
            assert not file.exists(), f"{path} is part of scalewise already"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            continue
        changed = file.read_text(encoding="utf-8")
        for old, new in re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)+)", text, re.MULTILINE):
            before, after = (re.sub(r"^.", "", lines, flags=re.MULTILINE) for lines in (old, new))
            assert changed.count(before) == 1, f"{path} has not this line, once: {before}"
            changed = changed.replace(before, after)
        file.write_text(changed, encoding="utf-8")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with all examples in it."""
    root = tmp_path_factory.mktemp("house")
    shutil.copytree(ROOT, root / "src" / "scalewise")
    write_examples(root)
    return root


@pytest.fixture(scope="module")
def ran(house: Path) -> dict[str, str]:
    """What each command of COMMANDS printed."""
    (house / "mistake.py").write_text(text_of(BROKEN))
    (house / "fixed.py").write_text(fixed_text(text_of(BROKEN)))
    (house / "ranks.py").write_text(RANKS)
    variables = {"PYTHONPATH": str(house / "src"), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    variables["SCALEWISE_TOOL"] = "env SEAT=seat-{rank}"
    command = [sys.executable, "-c", VERBS, json.dumps(list(COMMANDS.values()))]
    done = subprocess.run(command, cwd=house, env=variables, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    return dict(zip(COMMANDS, json.loads(done.stdout), strict=True))


def runs_in(house: Path, out: str) -> list[Run]:
    (folder,) = (house / out).iterdir()
    return list(load(folder).runs)


def found(diagnosis: str) -> set[str]:
    told: dict[str, Any] = json.loads(diagnosis)
    assert "checkpoint-every-step" in {*told["passed"], *(one["check"] for one in told["findings"])}, "not checked"
    return {one["check"] for one in told["findings"]}


def test_the_check_finds_its_mistake_and_is_silent_once_it_is_fixed(ran):
    assert found(ran["mistake"]) == {"checkpoint-every-step"}
    assert found(ran["fixed"]) == set()


def test_the_change_delays_every_batch_and_is_counted(ran, house):
    plain, changed = sorted(runs_in(house, "changed"), key=lambda run: len(run.spec.changes))
    assert (plain.applied("slow_storage"), changed.applied("slow_storage")) == (0, 1)
    assert len(changed.ranks[0].steps) == 12 and all(row.data_ns >= 20_000_000 for row in changed.ranks[0].steps)
    assert "storage:0.02" in ran["change"]


def test_the_suite_runs_and_is_reported_with_the_section(ran, house):
    runs = runs_in(house, "measured")
    assert sorted(run.spec.axes["batch"] for run in runs) == [8, 8, 64, 64, 256, 256]
    assert all(run.measured for run in runs)
    assert "From which batch on" in ran["suite"]
    rows = list(csv.DictReader(io.StringIO((house / "reports" / "batch" / "slowest-steps.csv").read_text())))
    assert {row["run"] for row in rows} == {run.spec.name for run in runs}


def test_the_launcher_makes_a_run_whose_ranks_find_each_other(ran, house):
    (row,) = json.loads(ran["launcher"])["experiments"][0]["rows"]
    assert (row["ranks"], row["mark"]) == (2, "measured"), row
    (folder,) = (house / "launched").glob("*/*/")
    assert json.loads((folder / "spec.json").read_text())["launcher"] == "tool"
    printed = [(folder / f"rank{rank}.stdout.log").read_text() for rank in range(2)]
    assert printed == ["seat-0 of 2\n", "seat-1 of 2\n"]


def module_of(path: str, tmp_path: Path) -> ModuleType:
    """The example, imported by itself."""
    file = tmp_path / Path(path).name
    file.write_text(text_of(path))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_section_names_the_slow_step_and_what_took_longer(tmp_path):
    """Step 30 waits 20 ms in backward, between the events that `rank_lines` writes: 8 numbers for each step."""
    run = write_run(tmp_path / "runs", "exp-ranks1-r0")
    lines, step = [json.loads(line) for line in run.rank(0).read_text().splitlines()], 0
    for line in lines:
        for first in range(0, len(line.get("events", ())), 8):
            for place in (0, 2, 4, 5, 7):  # the time stamps among them; backward ends at the third
                line["events"][first + place] += 20_000_000 * (step > 30 or (step == 30 and place > 2))
            step += 1
    run.rank(0).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (tmp_path / "runs" / "suite.toml").write_text('name = "own"\n[[experiment]]\nname = "exp"\n')
    cells = module_of(SECTION, tmp_path).build(evidence_of(tmp_path / "runs")).blocks[1].rows[0]
    assert [cell.text for cell in cells] == ["exp-ranks1-r0", "5.00", "25.0", "30", "backward"]


def test_the_wrapper_is_known_with_its_model_its_options_and_whether_it_will_synchronise(tmp_path, monkeypatch):
    kind = module_of(WRAPPER, tmp_path).KIND
    monkeypatch.setattr(wrappers, "kinds", lambda: (kind,))
    monkeypatch.setattr(wrappers, "_kind_of_class", wrappers._kind_of_class.__wrapped__)

    class Sharded(nn.Module):
        def __init__(self, model: nn.Module) -> None:
            super().__init__()
            self.model, self.prefetch, self.accumulates = model, 2, True

    wrapper = Sharded(nn.Linear(2, 2))
    assert wrappers.kind_of(wrapper) is None, "a class of that name in another package"
    Sharded.__module__ = "sharder.wrap"
    assert wrappers.kind_of(wrapper) is kind and wrappers.inner_of(wrapper) is wrapper.model
    assert kind.options_of(wrapper) == {"prefetch": 2} and not kind.synchronises(wrapper)
    wrapper.accumulates = False
    assert kind.synchronises(wrapper)


def test_examples_keep_the_rules_of_the_house():
    for language, path, text in examples():
        if language == "python" and path.startswith("src/"):
            tree = ast.parse(text)
            assert ast.get_docstring(tree) and fragments(tree) == [], path


@pytest.mark.processes
def test_examples_are_formatted_and_typed(house):
    files = [str(house / path) for language, path, _ in examples() if language != "toml" and path.startswith("src/")]
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--config", str(PAGE.parent / "pyproject.toml"), *files],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
