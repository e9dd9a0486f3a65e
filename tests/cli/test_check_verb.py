"""Tests of `scalewise check`: the course's own scripts pass, and each mistake made on a copy is named with its line."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from factories import make_machine
from scalewise.cli import main
from scalewise.cli.request import requested_check
from scalewise.console.output import Output
from scalewise.console.terminal import show_document
from scalewise.course.check_document import check_document
from scalewise.course.tasks.requirement import TaskVerdict
from scalewise.errors import BadRequest
from scalewise.jobs import check as check_module
from scalewise.jobs.as_json import verdict_json
from scalewise.jobs.check import check
from scalewise.jobs.reporter import SILENT
from scalewise.plan.find import course_folder

OPTIONS: dict[str, Any] = {"ranks": 2, "on": None, "device": None, "limit_seconds": 120.0, "args": ()}
CONSTANTS = {"DIM": "32", "BATCH": "64", "STEPS": "8", "WARMUP": "2", "LR": "1"}
NO_SYNC = "contextlib.nullcontext() if talk else model.no_sync()"
Checked = Callable[..., TaskVerdict]


@pytest.fixture
def checked(jobs_share_servers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checked:
    """Checks a copy of a course's script in which texts were replaced; the machine is not looked at."""

    machine = replace(make_machine(isa_cap="AVX512_CORE"), cores=tuple(sorted(os.sched_getaffinity(0))))
    monkeypatch.setattr(check_module, "machine_facts", lambda _: machine)
    monkeypatch.chdir(tmp_path)

    def run(task: str, script: str, *changes: tuple[str, str], **constants: object) -> TaskVerdict:
        for name, value in {**CONSTANTS, **constants}.items():
            monkeypatch.setenv(name, str(value))
        text = (course_folder() / f"{script}.py").read_text()
        for before, after in changes:
            assert before in text, f"{script} no longer holds {before!r}"
            text = text.replace(before, after)
        Path("mine.py").write_text(text)
        asked = {**OPTIONS, "name": task, "script": Path("mine.py"), "out": tmp_path / "runs"}
        return check(requested_check(asked), SILENT)

    return run


def unmet(verdict: TaskVerdict, state: str = "not fulfilled") -> dict[str, Any]:
    return {one.requirement.asks: one.found for one in verdict.judged if one.found.state == state}


@pytest.mark.parametrize(
    ("task", "script"),
    [
        ("practical7", "practical7_accumulation"),
        ("practical7", "practical7_amp"),
        ("homework2", "practical5_single"),
        ("practical8", "practical8_model_parallel"),
        ("homework3_model_parallel.py", "homework3_model_parallel"),
    ],
)
def test_the_scripts_of_the_course_fulfil_their_tasks(checked, task, script):
    verdict = checked(task, script, DEPTH=6 if "parallel" in script else 2)
    assert {one.found.state for one in verdict.judged} == {"fulfilled"}, unmet(verdict) | unmet(verdict, "not seen")
    assert verdict.task.script == script
    assert verdict.exit_code == 0 and verdict.sentence().startswith("All ")


def test_the_script_of_homework_1_fulfils_it_with_as_many_steps_as_the_sheet_asks_for(checked):
    verdict = checked("homework1", "practical6_ddp", STEPS=30, WARMUP=5)
    assert {one.found.state for one in verdict.judged} == {"fulfilled"}, unmet(verdict) | unmet(verdict, "not seen")


def test_homework_1_names_few_steps_prints_of_all_ranks_and_a_clock_after_forward(checked):
    moved = ("    start = clock()\n    output = model(x)\n", "    output = model(x)\n    start = clock()\n")
    verdict = checked("homework1", "practical6_ddp", moved, ("    if rank == 0:\n", "    if True:\n"), WARMUP=3)
    assert set(unmet(verdict)) == {
        "each step timed from before forward to after the optimizer step",
        "print on rank 0 only",
        "at least 30 steps",
        "first 5 steps ignored",
    }
    assert unmet(verdict)["at least 30 steps"].measured == "8 steps"
    assert verdict.exit_code == 2


def test_a_missing_no_sync_is_named_with_its_line_and_the_losses_stay_equal(checked):
    verdict = checked("homework2", "practical5_single", (NO_SYNC, "contextlib.nullcontext()"))
    ((asks, found),) = unmet(verdict).items()
    assert "no_sync" in asks
    assert found.measured == "4 synchronisations per 4 micro-batches, in 8 of 8 steps"
    assert found.where.text.startswith("output = model(x)") and "model.no_sync()" in found.change
    assert verdict.sentence() == "13 of 14 requirements of homework 2 (H2.1) are fulfilled, 1 is not."
    assert verdict.exit_code == 2


def test_a_loss_that_is_not_divided_is_named_and_parts_from_code_1(checked):
    verdict = checked("homework2", "practical5_single", ("loss_fn(output, y) / ACCUM_STEPS", "loss_fn(output, y)"))
    found = unmet(verdict)
    assert set(found) == {
        "loss = loss_fn(output, y) / ACCUM_STEPS",
        "trains as Code 1 does: losses equal within rounding",
    }
    assert "4 times too large" in found["loss = loss_fn(output, y) / ACCUM_STEPS"].measured


def test_a_script_without_scaler_misses_its_three_calls(checked):
    verdict = checked(
        "homework2",
        "practical5_single",
        ("scaler.scale(loss).backward()", "loss.backward()"),
        ("scaler.step(optimizer)", "optimizer.step()"),
        ("        scaler.update()\n", ""),
    )
    missing = {"scaler.scale(loss).backward()", "scaler.step(optimizer)", "scaler.update()"}
    assert missing <= set(unmet(verdict))
    assert unmet(verdict)["scaler.step(optimizer)"].measured == "0 of 8 steps: a GradScaler is made, but scales nothing"


def test_a_script_without_autocast_is_told_so(checked):
    disabled = ("dtype=DTYPE, enabled=AMP):", "dtype=DTYPE, enabled=False):")
    verdict = checked("homework2", "practical5_single", disabled)
    assert unmet(verdict)["with autocast(device_type=...)"].measured == "in 0 of 32 forward passes"
    assert "backward outside autocast" in unmet(verdict, "not seen")


def test_without_a_seed_the_losses_are_not_seen_instead_of_passed(checked):
    verdict = checked("homework2", "practical5_single", ("    torch.manual_seed(0)\n", ""))
    assert "torch.manual_seed(0) and torch.cuda.manual_seed_all(0)" in unmet(verdict)
    losses = unmet(verdict, "not seen")["trains as Code 1 does: losses equal within rounding"]
    assert "cannot be compared" in losses.measured


def test_a_loss_that_hardly_moves_says_nothing_about_training(checked):
    verdict = checked("homework2", "practical5_single", LR="0.0001")
    losses = unmet(verdict, "not seen")["trains as Code 1 does: losses equal within rounding"]
    assert "too little to tell" in losses.measured
    assert verdict.exit_code == 0 and "1 is not seen" in verdict.sentence()


@pytest.mark.parametrize(
    ("seed", "state", "says"),
    [
        ("torch.manual_seed(42)", "not fulfilled", "the seed is 42"),
        ("torch.manual_seed(int(os.environ['RANK']))", "not fulfilled", "the seed is int(os.environ['RANK'])"),
        ("torch.manual_seed(len(os.sep) - 1)", "not seen", "len(os.sep) - 1 is could not be read"),
    ],
)
def test_another_seed_than_0_is_named(checked, seed, state, says):
    verdict = checked("practical7-amp", "practical7_amp", ("    torch.manual_seed(0)\n", f"    {seed}\n"))
    assert says in unmet(verdict, state)["torch.manual_seed(0) and torch.cuda.manual_seed_all(0)"].measured


def test_a_seed_after_training_began_is_too_late(checked):
    late = ("    scaler.update()\n", "    scaler.update()\n    torch.manual_seed(0)\n")
    verdict = checked("practical7-amp", "practical7_amp", ("    torch.manual_seed(0)\n", ""), late)
    seeds = unmet(verdict)["torch.manual_seed(0) and torch.cuda.manual_seed_all(0)"]
    assert seeds.measured == "torch.manual_seed was called after the first forward pass"


def test_a_split_that_is_not_in_halves_is_counted(checked):
    verdict = checked("practical8", "practical8_model_parallel", ("if i < depth // 2:", "if i < depth // 3:"), DEPTH=6)
    ((asks, found),) = unmet(verdict).items()
    assert "depth // 2" in asks and found.measured == "6 layers: 2 on GPU 0, 4 on GPU 1"


def test_devices_that_are_written_down_do_not_use_all_gpus(checked):
    fixed = ('[torch.device("cuda", i) for i in range(gpus)]', '[torch.device("cuda", i) for i in range(2)]')
    verdict = checked("homework3", "homework3_model_parallel", fixed, DEPTH=6)
    found = unmet(verdict)["spreads the layers evenly over all GPUs"]
    assert "with 5 GPUs only 2 hold layers" in found.measured
    assert "device_count" in found.change


def test_a_script_that_leaves_the_gpus_alone_is_told_so(checked):
    verdict = checked("practical7-amp", "practical7_amp", DEVICE="cpu")
    assert "a GPU was shown, and it asked for none" in unmet(verdict)["runs on GPUs"].measured


def test_a_script_that_raises_is_not_judged_and_the_line_at_which_it_did_is_shown(checked, capsys):
    verdict = checked("homework2", "practical5_single", ("times = []", "raise ValueError('no [bold]data[/bold]')"))
    assert verdict.exit_code == 2 and not verdict.judged
    assert verdict.last_line == "ValueError: no [bold]data[/bold]"
    show_document(Output(), check_document(verdict))
    shown = " ".join(capsys.readouterr().out.split())
    assert "mine.py failed" in shown and shown.count("ValueError: no [bold]data[/bold]") == 1
    assert f"At mine.py:{verdict.where.line} raise ValueError('no [bold]data[/bold]')" in shown
    assert verdict_json(verdict)["where"]["text"].startswith("raise ValueError")
    assert "Traceback" not in shown


def test_a_script_that_asks_for_input_is_told_that_nobody_answers(checked):
    verdict = checked("homework2", "practical5_single", ("times = []", "rate = float(input('rate? '))"))
    assert verdict.sentence().endswith("It asks for typed input, which it cannot get here.")
    assert verdict.where.text.startswith("rate = float(input(")


def test_a_script_that_never_steps_is_told_with_the_line_at_which_it_stood(checked, monkeypatch):
    monkeypatch.setitem(OPTIONS, "limit_seconds", 2.0)
    verdict = checked("homework2", "practical5_single", ("times = []", "while True: time.sleep(0.05)"))
    assert "reached no optimizer step within 2 s" in verdict.sentence() and verdict.exit_code == 2
    assert verdict.where.text.startswith("while True")


def test_a_question_at_the_end_of_an_error_keeps_its_mark(checked):
    verdict = checked("homework2", "practical5_single", ("times = []", "model.trian()"))
    assert verdict.sentence().endswith("Did you mean: 'train'?")


def test_gradients_that_are_never_zeroed_are_counted_among_the_steps_that_were_read(checked):
    verdict = checked("homework2", "practical5_single", ("        optimizer.zero_grad()\n", ""))
    said = unmet(verdict)["gradients zeroed once per optimizer step"].measured
    before, _, after = said.rpartition(" of the ")
    assert before.split()[-1] == after.split()[0] and after.endswith("steps that were read")


def test_a_disabled_scaler_is_called_that(checked):
    off = ("enabled=AMP and DTYPE == torch.float16", "enabled=False")
    verdict = checked("homework2", "practical5_single", off)
    assert unmet(verdict)["scaler.step(optimizer)"].measured == "0 of 8 steps: the GradScaler is disabled"
    assert "enabled GradScaler" in unmet(verdict)["scaler.step(optimizer)"].change


def test_without_ddp_the_reason_why_losses_are_not_compared_is_that(checked):
    plain = (
        "DistributedDataParallel(LargeLinearModel(DIM, DEPTH).to(device))",
        "LargeLinearModel(DIM, DEPTH).to(device)",
    )
    verdict = checked("homework2", "practical5_single", plain, (NO_SYNC, "contextlib.nullcontext()"))
    losses = unmet(verdict, "not seen")["trains as Code 1 does: losses equal within rounding"]
    assert losses.measured.startswith("no DDP model was trained")


def test_layers_in_the_wrong_order_of_gpus_are_named_by_their_own_numbers(checked):
    swapped = ("LargeLinearModelMP(DIM, DEPTH, first, second)", "LargeLinearModelMP(DIM, DEPTH, second, first)")
    places = [
        ("randn(BATCH, DIM).to(first)", "randn(BATCH, DIM).to(second)"),
        ("y = torch.randn(BATCH, DIM).to(second)", "y = torch.randn(BATCH, DIM).to(first)"),
    ]
    verdict = checked("practical8", "practical8_model_parallel", swapped, *places, DEPTH=6)
    ((_, found),) = unmet(verdict).items()
    assert found.measured == "6 layers: 3 on GPU 1, 3 on GPU 0, and the first layer lies on GPU 1"


def test_a_file_from_windows_is_checked_as_any_other(checked):
    text = (course_folder() / "practical7_amp.py").read_text()
    verdict = checked("practical7-amp", "practical7_amp", (text, "\ufeff" + text))
    assert verdict.exit_code == 0 and verdict.judged


def test_an_empty_file_made_no_step(checked):
    text = (course_folder() / "practical5_single.py").read_text()
    verdict = checked("homework2", "practical5_single", (text, ""))
    assert verdict.sentence() == "mine.py made no optimizer step: there is nothing to check."
    assert verdict.exit_code == 2


def test_the_verdict_is_shown_with_marks_and_lines_and_given_as_json(checked, capsys):
    verdict = checked("practical7", "practical7_accumulation", ("model.no_sync()", "contextlib.nullcontext()"))
    show_document(Output(), check_document(verdict))
    first, second, *rest = capsys.readouterr().out.splitlines()
    said = f"{first} {second.strip()}"
    assert said == "mine.py: 7 of 8 requirements of practical 7, Code 1 (P7.1) are fulfilled, 1 is not."
    assert sum(line.startswith("[yes]") for line in rest) == 7 and sum(line.startswith("[NO]") for line in rest) == 1
    value = json.loads(json.dumps(verdict_json(verdict)))
    (bad,) = [one for one in value["requirements"] if one["state"] == "not fulfilled"]
    assert value["exit_code"] == 2 and value["not_fulfilled"] == 1 and bad["where"]["line"] > 1 and bad["change"]


@pytest.mark.parametrize(
    ("task", "name", "text", "says"),
    [
        ("homwork2", "mine.py", "pass\n", "did you mean 'homework2'?"),
        ("homework2", "absent.py", None, "does not exist"),
        ("homework2", "mine.py", "def (:\n", "line 1"),
        ("homework2", "mine.py", "\0\1", "binary"),
    ],
)
def test_a_request_that_cannot_be_done_is_one_sentence(tmp_path, monkeypatch, capsys, task, name, text, says):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path(name).write_text(text)
    with pytest.raises(SystemExit) as end:
        main(["check", task, name])
    said = capsys.readouterr()
    assert end.value.code == 1 and says.lower() in said.err.lower()
    assert "Traceback" not in said.err and not said.out


@pytest.mark.parametrize("wrong", [{"limit_seconds": 0.0}, {"ranks": 0}, {"on": "cpu", "device": "cuda"}])
def test_options_that_mean_nothing_are_refused(tmp_path, monkeypatch, wrong):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("pass\n")
    with pytest.raises(BadRequest):
        requested_check({**OPTIONS, "name": "homework2", "script": Path("mine.py"), "out": tmp_path, **wrong})
