"""From a measured homework to a zip that can be handed in: scripts, report, commands, each script tried on its own."""

import tempfile
from dataclasses import replace
from pathlib import Path

from scalewise.course.handin import newest_folder, problem_of, read_me, scripts_of, write_zip
from scalewise.course.pages import course_suites
from scalewise.errors import BadRequest, did_you_mean
from scalewise.jobs.reporter import Reporter
from scalewise.report.gather import document_of, evidence_of
from scalewise.report.write import ReportOptions, write_report


def hand_in(suite: str, runs: Path, out: Path | None, options: ReportOptions, reporter: Reporter) -> Path:
    """The zip; a BadRequest names everything that is missing at once."""
    _check(suite, options)
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
    path = out or Path(f"{suite}-{_file_name(options.author.name)}.zip")
    write_zip(path, {f"{path.stem}/{name}": content for name, content in files.items()})
    return path


def _check(suite: str, options: ReportOptions) -> None:
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
        sentence = ". ".join(problem[:1].upper() + problem[1:].rstrip(".?") for problem in problems)
        raise BadRequest(f"{sentence}.", "For example: scalewise handin homework2 --name 'Ada Lovelace' --id 1815")


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower()).strip("-") or "handin"
