"""Makes a zip to hand in from a measured homework: scripts, report and commands; each script is tried on its own."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path

from scalewise.course.handin_parts import edited_since, newest_folder, problem_of, read_me, scripts_of, write_zip
from scalewise.course.section_files import course_suites
from scalewise.errors import BadRequest, did_you_mean
from scalewise.jobs.reporter import Reporter
from scalewise.report.build_document import document_of, evidence_of
from scalewise.report.write import ReportOptions, write_report
from scalewise.units import listed

MOST_BYTES = 200  # length limit of a person's name in a file name


def hand_in(suite: str, runs: Path, out: Path | None, options: ReportOptions, reporter: Reporter) -> Path:
    """Writes the zip and returns its path; a BadRequest names everything that is missing at once."""
    path = out or Path(f"{suite}-{_file_name(options.author.name)}.zip")
    _check(suite, options, path)
    folder = newest_folder(suite, runs)
    evidence = evidence_of(folder)
    scripts = scripts_of(evidence)
    problems = []
    for script in scripts:
        reporter.say(f"trying {script.file.name} in an empty folder")
        problems.append(problem_of(script))
    found = [problem for problem in problems if problem]
    if found:
        raise BadRequest(
            "; ".join(found) + ".", "A script that is handed in must run by itself: one file, no imports of yours."
        )
    edited = edited_since(evidence, scripts)
    if edited:
        told = f"{listed(edited)} {'was' if len(edited) == 1 else 'were'} saved after measuring"
        reporter.say(f"{told}; if you changed it, measure again: scalewise run {suite}", tone="warning")
    document = document_of(evidence, reporter.say, options.pages_of)
    seen = document.title_block
    author = replace(options.author, date=seen.date, machine=seen.machine) if seen else options.author
    files = {script.file.name: script.file.read_bytes() for script in scripts}
    with tempfile.TemporaryDirectory(prefix="scalewise-handin-") as name:
        made = write_report(folder, replace(options, out=Path(name), formats=("pdf",)), reporter.say)
        report = next((path for path in made if path.suffix == ".pdf"), None)
        if report is None:
            raise BadRequest("The PDF could not be made, so there is nothing to hand in.", "See what was said above.")
        files[report.name] = report.read_bytes()
    files["README.txt"] = read_me(document.title, author, scripts, report.name, suite).encode()
    if path.exists():
        reporter.say(f"{path} was there already and is replaced")
    try:
        write_zip(path, {f"{path.stem}/{name}": content for name, content in files.items()})
    except OSError as error:
        raise _cannot_write(path, error.strerror) from error
    return path


def _check(suite: str, options: ReportOptions, path: Path) -> None:
    known = course_suites()
    problems = []
    if suite not in known:
        near = did_you_mean(suite, known)
        problems.append(f"{suite!r} is no homework of the course ({', '.join(known)}){f'; {near}' if near else ''}")
    if not options.author.name:
        problems.append("--name is missing: a hand-in says whose it is")
    if not options.author.student_number:
        problems.append("--id is missing: give your student number")
    if problems:
        told = [problem[:1].upper() + problem[1:] for problem in problems]
        sentence = " ".join(one if one.endswith("?") else f"{one}." for one in told)
        raise BadRequest(sentence, "For example: scalewise handin homework2 --name 'Ada Lovelace' --id 1815")

    if not path.parent.is_dir():
        raise _cannot_write(path, f"there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise _cannot_write(path, "Permission denied")


def _cannot_write(path: Path, reason: str | None) -> BadRequest:
    return BadRequest(f"The zip cannot be written to {path}: {reason}.", "Name another place with --out.")


def _file_name(name: str) -> str:
    """Returns the name's letters and digits in lower case, cut to a length that every folder accepts."""
    words = "".join(letter if letter.isalnum() else " " for letter in name.lower()).split()
    return "-".join(words).encode()[:MOST_BYTES].decode(errors="ignore").strip("-") or "handin"
