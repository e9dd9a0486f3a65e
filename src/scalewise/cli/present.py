"""Shows the result of a verb, and writes the files that were asked for beside it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scalewise.console.output import Output
from scalewise.console.terminal import show_document
from scalewise.errors import BadRequest
from scalewise.records.load import LoadedSuite
from scalewise.report.document import Document

ResultFile = tuple[Path | None, Callable[[Path, Any], str | None], Any]  # path if wanted; how to write; what


def present(output: Output, result: object, *files: ResultFile) -> None:
    """Shows a document, or writes any other result as JSON; the files that were asked for beside it are written first.

    So they are there even if whoever reads the result closes the pipe. What is said of them comes after the result.
    """
    said, refused = _write(files)
    try:
        show_document(output, result) if isinstance(result, Document) else output.json(result)
    finally:
        for sentence in said:
            output.say(sentence)
        if refused:
            raise refused[0]


def _write(files: Sequence[ResultFile]) -> tuple[list[str], list[BadRequest]]:
    """Writes each file that is wanted; returns what is to be said of them, and what cannot be written."""
    said, refused = [], []
    for path, write, what in files:
        try:
            if path is not None:
                said.append(write(path, what) or f"written: {path}")
        except BadRequest as error:
            refused.append(error)
        except OSError as error:
            sentence = f"{error.filename} cannot be written: {error.strerror}."
            refused.append(BadRequest(sentence, "Choose another path."))
    return said, refused


def trace_file(path: Path, loaded: LoadedSuite) -> str:
    """Writes a step of the inspected run as a trace; returns what is to be said of it."""
    from scalewise.analysis.trace import traced_run, write_trace

    run = traced_run(loaded)
    write_trace(run, path)
    return f"trace of {run.spec.name} written to {path}; open it in ui.perfetto.dev or chrome://tracing"
