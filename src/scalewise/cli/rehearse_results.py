"""Gives what was rehearsed to whoever asked: the terminal or JSON, and a page for browsers."""

from pathlib import Path

from scalewise.cli.rehearse_request import Request
from scalewise.console.output import Output
from scalewise.errors import BadRequest
from scalewise.predict.answer import Answer
from scalewise.predict.conclusion import Conclusions, conclude
from scalewise.predict.cost import Training

DONE = 0
FAILED = 2  # some number of ranks has no prediction, or real ranks that were to check one did not get through
DOUBTFUL = 3  # what was measured lies outside the interval that was predicted for it


def give(output: Output, answer: Answer, request: Request, as_json: bool, html: Path | None) -> int:
    """Shows it and writes it; the exit code says whether all was predicted and none refuted."""
    training = Training(steps=request.steps, price_per_gpu_hour=request.price_per_hour)
    found = conclude(answer, request.memory_bytes, training, advice=request.advice)
    if as_json:
        from scalewise.predict.as_json import rehearsal_json

        output.json(rehearsal_json(answer, found))
    else:
        from scalewise.console.rehearse_view import show_rehearsal

        show_rehearsal(output, answer, found)
        _show_words(output, answer)
    if html is not None:
        _write(output, html, answer, found)
    return exit_code(answer)


def exit_code(answer: Answer) -> int:
    """What is not there weighs more than what is in doubt."""
    if answer.refused or answer.check_failed:
        return FAILED
    return DONE if all(check.inside for check in answer.checks) else DOUBTFUL


def _show_words(output: Output, answer: Answer) -> None:
    for one in answer.refused:
        if one.words:
            output.show()
            output.show(f"What the script itself said last as one of {one.ranks} ranks:", style="bold")
            for line in one.words:
                output.show(f"    {line}")


def _write(output: Output, path: Path, answer: Answer, found: Conclusions) -> None:
    from scalewise.report.rehearse_page import write_rehearse_page

    try:
        write_rehearse_page(path, answer, found)
    except OSError as error:
        raise BadRequest(f"{error.filename} cannot be written: {error.strerror}.", "Choose another path.") from error
    output.say(f"written: {path}")
