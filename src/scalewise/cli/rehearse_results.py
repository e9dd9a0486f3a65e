"""Hands over what was rehearsed: to a person or as JSON."""

from dataclasses import asdict, replace
from typing import Any

from scalewise.cli.rehearse_request import Request
from scalewise.console.output import Output
from scalewise.predict.answer import Answer
from scalewise.predict.prediction import Range
from scalewise.units import seconds_text

DONE = 0
INCOMPLETE = 2  # for some number of ranks there is no prediction


def give(output: Output, answer: Answer, request: Request, as_json: bool) -> int:
    """The exit code says whether every number of ranks has its prediction."""
    if as_json:
        output.json(answer_json(answer))
    else:
        _show(output, answer)
    output.say(f"kept in {answer.folder}")
    return INCOMPLETE if answer.refused else DONE


def answer_json(answer: Answer) -> dict[str, Any]:
    """All of it but the tapes, which are in the folder."""
    bare = replace(answer, at=(), others=(), fine=None)
    at = [
        {
            "ranks": one.ranks,
            "step_seconds": asdict(one.predicted.step),
            "measured": asdict(one.measured) if one.measured else None,
            "samples": one.predicted.samples,
            "bound": one.predicted.bound,
            "peak_bytes": one.predicted.peak_bytes,
            "company": one.rehearsal.company,
        }
        for one in answer.at
    ]
    checks = [{**asdict(one), "ratio": one.ratio, "inside": one.inside} for one in answer.checks]
    return {**asdict(bare), "at": at, "checks": checks}


def _show(output: Output, answer: Answer) -> None:
    for one in answer.at:
        output.show(f"{one.ranks} ranks: predicted {_text(one.predicted.step)}, bound by {one.predicted.bound}")
    for check in answer.checks:
        miss = f"{100 * (check.ratio - 1):+.0f} %"
        output.show(f"check with {check.ranks} ranks: predicted {_text(check.predicted)}, measured "
                    f"{_text(check.measured)}: {miss}")  # fmt: skip
    for refusal in answer.refused:
        output.show(f"{refusal.ranks} ranks: no prediction. {refusal.reason}", style="red")
        for line in refusal.words:
            output.show(f"    {line}")
        output.show(refusal.hint)
    for warning in answer.warnings:
        output.show(f"warning: {warning}", style="yellow")
    for guess in answer.guesses:
        output.show(f"guessed: {guess}")


def _text(step: Range) -> str:
    return f"{seconds_text(step.value)} ({seconds_text(step.low)} to {seconds_text(step.high)})"
