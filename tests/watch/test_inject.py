"""The watcher brought in by the environment: under torchrun itself, in plain python, and in processes spawned later."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from watch_expected import TABLE
from watch_runner import ABORT_AT_EXIT, SAFE_ISA, SCRIPTS, free_port, prepare

import scalewise
from scalewise.records.folder import RunFolder
from scalewise.records.load import read_rows
from scalewise.records.rows import StepRow, TroubleRow

pytestmark = pytest.mark.processes

INJECT = Path(scalewise.__file__).parent / "watch" / "inject"
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SCALEWISE"))}


def _variables(out: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(INJECT), "SCALEWISE_SPEC": str(out / "spec.json"), "SCALEWISE_OUT": str(out)}


def _start(command, cwd: Path, added: dict[str, str] | None = None):
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env={**CLEAN, **SAFE_ISA, **(added or {})},
        capture_output=True,
        text=True,
        timeout=280,
    )


def _torchrun(script: str, args, cwd: Path, added: dict[str, str] | None = None) -> tuple[int, list[str], str]:
    """The exit code of torchrun, what each rank printed, and all that went to standard error."""
    logs = cwd / "logs"
    options = ["--nproc-per-node", "2", "--master-port", str(free_port()), "--redirects", "3", "--log-dir", str(logs)]
    ran = _start(["-m", "torch.distributed.run", *options, str(SCRIPTS / script), *args], cwd, added)
    printed = sorted(logs.glob("*/attempt_0/*/stdout.log"), key=lambda path: path.parent.name)
    assert len(printed) == 2, ran.stderr
    said = ran.stderr + "".join(path.with_name("stderr.log").read_text() for path in printed)
    return ran.returncode, [path.read_text() for path in printed], said


def _folders(tmp_path: Path, script: str, args=(), ranks: int = 2) -> tuple[Path, RunFolder]:
    cwd, out = tmp_path / "cwd", RunFolder(tmp_path / "out")
    cwd.mkdir()
    out.path.mkdir()
    prepare(out, script, args, cwd, ranks, {"launcher": "torchrun"})
    return cwd, out


def test_a_script_under_torchrun_sees_and_prints_what_it_does_alone_and_is_watched_as_a_forked_one_is(tmp_path) -> None:
    """One script for all of it, as each start of torchrun takes three interpreters that import torch."""
    script, how = "all_under_torchrun.py", "ddp_accumulate_amp_scaler"
    (expected,) = (one for one in TABLE if one.label == how)
    cwd, out = _folders(tmp_path, script)
    (tmp_path / "raw").mkdir()

    raw_code, raw, raw_said = _torchrun(script, (), tmp_path / "raw")
    code, printed, said = _torchrun(script, (), cwd, _variables(out.path))

    assert (code, raw_code) == (1, 1)
    assert all("RuntimeError: after its last step" in text or ABORT_AT_EXIT in text for text in (said, raw_said))
    for alone, watched in zip(raw, printed, strict=True):
        assert watched.replace(str(cwd), "CWD") == alone.replace(str(tmp_path / "raw"), "CWD")
    for rank in (0, 1):
        rows = read_rows(out.rank(rank)).rows
        steps = [row for row in rows if isinstance(row, StepRow)]
        assert len(steps) == expected.steps and not [row for row in rows if isinstance(row, TroubleRow)]
        assert all(row.collectives == expected.collectives for row in steps)
        assert all(row.micro_batches == expected.micro_batches for row in steps)


def _spawn(cwd: Path, out: RunFolder):
    """Once more after gloo's own abort at the exit of a child, which raw processes suffer too."""
    for _ in range(3):
        ran = _start([str(SCRIPTS / "spawn.py"), str(free_port())], cwd, _variables(out.path))
        if ABORT_AT_EXIT not in ran.stderr:
            break
        for path in out.path.glob("rank*.jsonl"):
            path.unlink()
    return ran


def test_processes_that_a_script_spawns_are_ranks_of_their_own(runner, tmp_path) -> None:
    cwd, out = _folders(tmp_path, "spawn.py", ranks=0)

    raw, ran = runner.raw("spawn.py", str(free_port()), "fork"), _spawn(cwd, out)

    assert (raw.codes, ran.returncode) == ((0,), 0), (raw.stderr, ran.stderr)
    assert (ran.stdout, ran.stderr) == (raw.stdout[0], raw.stderr[0]) and ran.stdout.count("step") == 6
    ranks = dict(out.rank_files())
    assert sorted(ranks) == [0, 1]
    for path in ranks.values():
        rows = read_rows(path).rows
        assert len([row for row in rows if isinstance(row, StepRow)]) == 6
        assert not [row for row in rows if isinstance(row, TroubleRow)]


def test_a_process_that_never_imports_torch_is_not_touched(tmp_path) -> None:
    cwd, out = _folders(tmp_path, "plain.py", ranks=0)
    script = cwd / "small.py"
    script.write_text("import os, sys\nprint('torch' in sys.modules, sys.argv[1:], sorted(os.environ), sys.path)\n")

    raw = _start([str(script), "a"], cwd)
    ran = _start([str(script), "a"], cwd, _variables(out.path))

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, raw.stdout, "")
    assert not out.rank(0).exists()


def test_a_sitecustomize_that_ours_stands_in_front_of_still_has_its_turn(tmp_path) -> None:
    cwd, out = _folders(tmp_path, "plain.py", ranks=0)
    (cwd / "sitecustomize.py").write_text("print('the other one')\n")
    script = cwd / "small.py"
    script.write_text("print('the script')\n")
    variables = _variables(out.path)

    ran = _start([str(script)], cwd, {**variables, "PYTHONPATH": f"{INJECT}{os.pathsep}{cwd}"})

    assert (ran.returncode, ran.stdout) == (0, "the other one\nthe script\n")


def test_an_injection_without_a_folder_to_write_to_runs_the_script_all_the_same(tmp_path) -> None:
    script = tmp_path / "small.py"
    script.write_text("print('the script')\n")

    ran = _start([str(script)], tmp_path, _variables(tmp_path / "gone"))

    assert (ran.returncode, ran.stdout) == (0, "the script\n")
