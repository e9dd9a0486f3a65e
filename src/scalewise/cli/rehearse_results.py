"""Gives what was rehearsed to whoever asked: the terminal or JSON, and a page for browsers."""

from pathlib import Path

from scalewise.cli.rehearse_request import Request
from scalewise.console.output import Output
from scalewise.errors import BadRequest
from scalewise.predict.answer import Answer
from scalewise.predict.conclusion import Conclusions, conclude
from scalewise.predict.cost import Training

DONE = 0
INCOMPLETE = 2  # for some number of ranks there is no prediction


def give(output: Output, answer: Answer, request: Request, as_json: bool, html: Path | None) -> int:
    """Shows it and writes it; the exit code says whether every number of ranks has its prediction."""
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
    return INCOMPLETE if answer.refused else DONE


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
