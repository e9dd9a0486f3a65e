"""Tests of the scripts as text: the course's own lines, plain PyTorch, short, and started by torchrun alone."""

import ast
import os
import shutil
import subprocess
import sys

import pytest
from course_runner import ALONE, SCRIPTS

NAMES = {
    "practical5_dp.py",
    "practical6_ddp.py",
    "practical7_accumulation.py",
    "practical7_amp.py",
    "practical5_single.py",
    "practical8_model_parallel.py",
    "homework3_model_parallel.py",
}
SEEDS = ["    torch.manual_seed(0)\n    torch.cuda.manual_seed_all(0)\n", "torch.cuda.synchronize("]
MOST_LINES = 100
CONSTANTS = {"DIM": "32", "STEPS": "6", "OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}
LINES = {
    "practical5_dp.py": [*SEEDS, "nn.DataParallel("],
    "practical6_ddp.py": [
        *SEEDS,
        "time.sleep(DELAY)",
        "if dist.get_rank() == 0 and IMBALANCE > 0:\n        time.sleep(IMBALANCE)",
    ],
    "practical7_accumulation.py": [
        *SEEDS,
        "loss = loss_fn(output, y) / ACCUM_STEPS",
        "model.no_sync()",
        "if (step + 1) % ACCUM_STEPS == 0:",
    ],
    "practical7_amp.py": [
        *SEEDS,
        "with autocast(device_type=",
        "scaler.scale(loss).backward()",
        "scaler.step(optimizer)",
        "scaler.update()",
    ],
    "practical5_single.py": [
        *SEEDS,
        "loss = loss_fn(output, y) / ACCUM_STEPS",
        "model.no_sync()",
        "if (step + 1) % ACCUM_STEPS == 0:",
        "autocast(",
        "GradScaler(",
        "scaler.scale(loss).backward()",
        "scaler.step(optimizer)",
        "scaler.update()",
    ],
    "practical8_model_parallel.py": [
        *SEEDS,
        "class LargeLinearModelMP(nn.Module):",
        "if i < depth // 2:",
        "x = x.to(layer_device)",
    ],
    "homework3_model_parallel.py": [
        *SEEDS,
        "class LargeLinearModelMP(nn.Module):",
        "def __init__(self, dim, depth):",
        "x = x.to(layer_device)",
    ],
}
FILES = sorted(SCRIPTS.glob("*.py"))


def test_the_course_has_its_files_and_no_others():
    assert {file.name for file in FILES} == NAMES


@pytest.mark.parametrize("name", sorted(LINES))
def test_the_lines_that_the_course_names_are_there(name):
    text = (SCRIPTS / name).read_text()
    assert [line for line in LINES[name] if line not in text] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_script_is_plain_pytorch_and_short(file):
    tree = ast.parse(file.read_text())
    assert ast.get_docstring(tree)
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    roots = {name.split(".")[0] for name in imported}
    assert roots <= {*sys.stdlib_module_names, "torch"}
    assert len(file.read_text().splitlines()) <= MOST_LINES


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_seeds_are_set_before_anything_is_made(file):
    whole = ast.parse(file.read_text()).body[1:]  # the first is the docstring
    body = [node for node in whole if not isinstance(node, ast.Import | ast.ImportFrom)]
    places = [place for place, node in enumerate(body) if "torch.manual_seed(0)" in ast.unparse(node)]
    made = [place for place, node in enumerate(body) if "nn." in ast.unparse(node) or "randn" in ast.unparse(node)]
    assert len(places) == 1 and places[0] < min(made)


def test_the_class_of_homework_3_detects_the_gpus_itself():
    tree = ast.parse((SCRIPTS / "homework3_model_parallel.py").read_text())
    (model,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    (init,) = (node for node in model.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    assert [one.arg for one in init.args.args] == ["self", "dim", "depth"]
    assert "torch.cuda.device_count()" in ast.unparse(init)


def test_the_model_is_the_same_everywhere():
    models = set()
    for name in NAMES - {"practical8_model_parallel.py", "homework3_model_parallel.py"}:
        tree = ast.parse((SCRIPTS / name).read_text())
        models |= {ast.unparse(node) for node in tree.body if isinstance(node, ast.ClassDef)}
    assert len(models) == 1


def ran_six_steps(said: str) -> bool:
    lines = said.splitlines()
    assert any("median" in line and "of 1 steps" in line for line in lines), said
    return sum(line.startswith("step ") for line in lines) == 6


# Each script is an interpreter of its own for its students. Here one of each kind is, with torchrun where it has ranks;
# the others are copies of a process that has imported torch and nothing of scalewise's watcher.
@pytest.mark.processes
@pytest.mark.parametrize("name", ["practical6_ddp.py", "practical5_dp.py"])
def test_a_script_runs_alone_in_an_empty_folder_as_its_students_start_it(tmp_path, name):
    shutil.copy(SCRIPTS / name, tmp_path)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    start = [sys.executable] if name.removesuffix(".py") in ALONE else torchrun
    done = subprocess.run(
        [*start, name],
        cwd=tmp_path,
        env=os.environ | CONSTANTS,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    # Correct gloo scripts sometimes abort at interpreter exit, after all is done.
    assert done.returncode == 0 or "terminate called without an active exception" in done.stderr, done.stderr
    assert ran_six_steps(done.stdout)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_script_runs_alone_in_an_empty_folder(unwatched, tmp_path, name):
    script = shutil.copy(SCRIPTS / name, tmp_path)
    ran = unwatched.raw(script, ranks=0 if name.removesuffix(".py") in ALONE else 2)
    assert {*ran.codes} == {0}, ran.stderr
    assert ran_six_steps(ran.stdout[0])
