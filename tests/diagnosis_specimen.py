"""A diagnosis with every kind of finding, for the views; its texts hold what a hostile script might put there."""

from pathlib import Path

from factories import make_estimate
from scalewise.doctor.finding import Diagnosis, Finding, Price, Unchecked, rules
from scalewise.records.examination import PlaceRow

TIMES = make_estimate(4.0, 3.99, 4.01)
SAVED = make_estimate(12.3456, 11.2, 13.4)
SCRIPT = """import torch


def train(model, loader, optimizer, accumulate):
    for i, (x, y) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(model(x), y)  # <script>alert("1")</script>
        loss.backward()
        if (i + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
"""


def place(script: Path, line: int, function: str = "train") -> PlaceRow:
    """A line of the specimen's script."""
    return PlaceRow(line, str(script), line, function, SCRIPT.splitlines()[line - 1].strip())


def specimen_diagnosis(folder: Path, name: str = "train.py") -> Diagnosis:
    """Of a script that is written into the folder."""
    script = folder / name
    script.write_text(SCRIPT, encoding="utf-8")
    findings = (_undivided(script), _synchronised(script), _suspected(script), _note())
    unchecked = (
        Unchecked("read-every-step", "the script used no GPU"),
        Unchecked("clock-without-synchronise", "the script used no GPU"),
        Unchecked("input-bound", "needs 8 steps, saw 5"),
    )
    named = {one.check for one in (*findings, *unchecked)}
    return Diagnosis(
        script=str(script),
        findings=findings,
        passed=tuple(rule.check.name for rule in rules() if rule.check.name not in named),
        unchecked=unchecked,
        notes=("The script ended by itself.",),
        steps=40,
        ranks=2,
        seconds=3.14159,
        folder=str(folder / "runs"),
        machine={"cpu": "some", "torch": "2.13.0"},
    )


def _undivided(script: Path) -> Finding:
    return Finding(
        check="loss-not-divided",
        severity="wrong",
        sentence="The loss is not divided by the 4 micro-batches of a window: the gradient is 4.00 times that of the "
        "whole batch.",
        evidence=(
            "in 10 of 10 windows the gradient that reached the loss was 1, not 1/4",
            "a reduction by \x1b[31mmean\x1b[0m over 8 rows",
        ),
        fix="loss = loss / accumulate\nloss.backward()",
        where=place(script, 7),
        also=(place(script, 9),),
        price=Price(
            4.0,
            "times",
            "the gradient that is applied",
            "measured with the fix applied",
            TIMES,
        ),
        proof="replayed",
        steps_seen=10,
    )


def _synchronised(script: Path) -> Finding:
    return Finding(
        check="sync-every-micro-batch",
        severity="slow",
        sentence="Gradients are reduced in 4 of 4 micro-batches, 3 of them for nothing & <b>slow</b>.",
        evidence=("9.46 MB in every micro-batch",),
        fix='with model.no_sync() if (i + 1) % accumulate else nullcontext():\n    loss = loss_of(model(x), "y")',
        where=place(script, 6),
        price=Price(
            12.3456,
            "ms per step",
            "communication that no_sync would save",
            "measured",
            SAVED,
        ),
        steps_seen=10,
        ranks=(0, 1),
    )


def _suspected(script: Path) -> Finding:
    return Finding(
        check="scheduler-per-micro-batch",
        severity="wrong",
        sentence="The scheduler may be meant to step once per window.",
        evidence=("4 calls in every window",),
        fix="scheduler.step()  # after optimizer.step()",
        where=PlaceRow(9, str(script.with_name("gone.py")), 12, "<module>", "scheduler.step()"),
        proof="suspected",
        price=Price(3.0 * 2**20, "bytes", "memory that is kept", "computed from the sizes seen"),
    )


def _note() -> Finding:
    return Finding(
        "group-not-destroyed", "note", "The process group was not destroyed.", (), "dist.destroy_process_group()"
    )
