"""Tests of the scripts as text: the course's own lines, plain PyTorch, short, and started by torchrun alone."""

import ast
import os
import subprocess
import sys

import pytest
from course_runner import SCRIPTS

NAMES = {
    "practical5_dp.py",
    "practical6_ddp.py",
    "practical7_accumulation.py",
    "practical7_amp.py",
    "practical5_single.py",
    "practical8_model_parallel.py",
    "homework3_model_parallel.py",
}
SEEDS = ["torch.manual_seed(SEED)", "torch.cuda.manual_seed_all(SEED)", "SEED = seed(0)"]
LINES = {
    "practical5_dp.py": [*SEEDS, "nn.DataParallel("],
    "practical6_ddp.py": [
        *SEEDS,
        "time.sleep(DELAY)",
        "if dist.get_rank() == 0:\n            time.sleep(IMBALANCE)",
        "torch.cuda.synchronize()",
    ],
    "practical7_accumulation.py": [
        *SEEDS,
        "loss = loss_fn(output, y) / ACCUM_STEPS",
        "model.no_sync()",
        "if (step + 1) % ACCUM_STEPS == 0:",
        "torch.cuda.synchronize()",
    ],
    "practical7_amp.py": [
        *SEEDS,
        "with autocast(device_type=",
        "scaler.scale(loss).backward()",
        "scaler.step(optimizer)",
        "scaler.update()",
        "torch.cuda.synchronize()",
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
        "torch.cuda.synchronize()",
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
        "torch.cuda.device_count()",
        "x = x.to(layer_device)",
    ],
}
FILES = sorted(SCRIPTS.glob("*.py"))


def test_the_course_has_its_files():
    assert {file.name for file in FILES} == {*NAMES, "constants.py", "devices.py"}


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
    assert roots <= {*sys.stdlib_module_names, "torch", "constants", "devices"}
    assert len(file.read_text().splitlines()) <= (110 if file.name in NAMES else 170)


def test_the_model_is_the_same_everywhere():
    models = set()
    for name in NAMES - {"practical8_model_parallel.py", "homework3_model_parallel.py"}:
        tree = ast.parse((SCRIPTS / name).read_text())
        models |= {ast.unparse(node) for node in tree.body if isinstance(node, ast.ClassDef)}
    assert len(models) == 1


def test_torchrun_alone_starts_a_script():
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2"]
    constants = {"DIM": "32", "STEPS": "6", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(SCRIPTS / "practical7_accumulation.py")],
        env=os.environ | constants,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    # Correct gloo scripts sometimes abort at interpreter exit, after all is done.
    assert done.returncode == 0 or "terminate called without an active exception" in done.stderr, done.stderr
    first, *steps, last = done.stdout.splitlines()
    assert first.startswith("ranks: 2 over ") and len(steps) == 6 and "over 1 steps after warm-up" in last
