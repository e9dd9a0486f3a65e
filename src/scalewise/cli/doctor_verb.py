"""The request of `scalewise doctor`, and its diagnosis: in the terminal or as JSON, and in files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scalewise.analysis.summary import to_json
from scalewise.console.output import Output
from scalewise.errors import BadRequest
from scalewise.jobs.diagnose import DiagnoseRequest, ExaminedScript
from scalewise.plan.words import PLAIN, parse_changes, ranks_problem
from scalewise.records.codec import encode
from scalewise.report.documents.diagnosis_document import diagnosis_document


def requested_diagnosis(script: str | None, args: Sequence[str], options: Mapping[str, Any]) -> DiagnoseRequest:
    """The request, or a BadRequest that says what is wrong with it."""
    if script is None:
        raise BadRequest("Which script?", "Name it: scalewise doctor train.py --ranks 2 -- ARGS")
    for name in ("limit", "stall"):
        if not 0 < options[name] < float("inf"):
            raise BadRequest(f"--{name} {options[name]:g} is not a time.", "Give a number of seconds above 0.")
    problem = ranks_problem(options["ranks"])
    if problem:
        raise BadRequest(f"--ranks: {problem}.", "Two ranks show most mistakes.")
    on_cpu = options["on"] == "cpu"
    if on_cpu and options["device"] == "cuda":
        raise BadRequest("--on cpu and --device cuda contradict each other.", "Leave one of them out.")
    return DiagnoseRequest(
        script=Path(script),
        args=tuple(args),
        ranks=options["ranks"],
        plain=options["plain"],
        on_cpu=on_cpu,
        device=options["device"] or "auto",
        limit_seconds=options["limit"],
        stall_seconds=options["stall"],
        replays=not options["no_replay"],
        out=options["out"],
        in_place=bool(options.get("in_place")),
        changes=parse_changes(options.get("change") or PLAIN),
    )


def present_diagnosis(
    output: Output, examined: ExaminedScript, as_json: bool, html: Path | None, sarif: Path | None
) -> int:
    """Shows it and writes it; the exit code says whether something was found."""
    if as_json:
        words = "\n".join(examined.words)
        more = {"traceback": words, "exit_code": examined.exit_code, "files": examined.files}
        output.json(to_json({**encode(examined.diagnosis), **more}))
    else:
        from scalewise.console.terminal import show_document

        show_document(output, diagnosis_document(examined.diagnosis, examined.words))
    _write_files(output, examined, html, sarif)
    return examined.exit_code


def _write_files(output: Output, examined: ExaminedScript, html: Path | None, sarif: Path | None) -> None:
    try:
        if html is not None:
            from scalewise.report.html import write_page

            write_page(html, diagnosis_document(examined.diagnosis, examined.words))
            output.say(f"written: {html}")
        if sarif is not None:
            from scalewise.report.sarif import write_sarif

            write_sarif(sarif, examined.diagnosis)
            output.say(f"written: {sarif}")
    except OSError as error:
        raise BadRequest(f"{error.filename} cannot be written: {error.strerror}.", "Choose another path.") from error
