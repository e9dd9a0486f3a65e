"""Gives a diagnosis to whoever asked: the terminal or JSON, and the files for browsers, editors and code hosts."""

from pathlib import Path

from scalewise.analysis.summary import to_json
from scalewise.cli.doctor import Examined
from scalewise.console.output import Output
from scalewise.errors import BadRequest
from scalewise.records.codec import encode


def give(output: Output, examined: Examined, as_json: bool, html: Path | None, sarif: Path | None) -> int:
    """Shows it and writes it; the exit code says whether something was found."""
    if as_json:
        words = "\n".join(examined.words)
        more = {"traceback": words, "exit_code": examined.exit_code, "files": examined.files}
        output.json(to_json({**encode(examined.diagnosis), **more}))
    else:
        from scalewise.console.doctor_view import show_diagnosis

        show_diagnosis(output, examined.diagnosis)
        if examined.words:
            output.show()
            output.show("What the script itself said last:")
            for line in examined.words:
                output.show(f"    {line}")
    _write_files(output, examined, html, sarif)
    return examined.exit_code


def _write_files(output: Output, examined: Examined, html: Path | None, sarif: Path | None) -> None:
    try:
        if html is not None:
            from scalewise.report.doctor_page import write_doctor_page

            write_doctor_page(html, examined.diagnosis)
            output.say(f"written: {html}")
        if sarif is not None:
            from scalewise.report.sarif import write_sarif

            write_sarif(sarif, examined.diagnosis)
            output.say(f"written: {sarif}")
    except OSError as error:
        raise BadRequest(f"{error.filename} cannot be written: {error.strerror}.", "Choose another path.") from error
