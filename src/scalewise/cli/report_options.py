"""Options that `report`, `course` and `handin` share: who hands in, and whether the answers are written."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from scalewise.report.write import ReportOptions

Verb = TypeVar("Verb", bound=Callable[..., Any])
MOST_LETTERS = 80  # of a name: the title block has one line for it


def author_options(verb: Verb) -> Verb:
    """Adds --name, --id, --course-name and --answers."""
    for option in (
        click.option("--answers", type=click.Choice(["full", "hints"]), default="full", show_default=True,
                     help="hints: fill tables and figures, and leave lines for your own answers."),
        click.option("--course-name", default="", callback=_one_line, help="The course, for the title block."),
        click.option("--id", "student_number", default="", callback=_one_line, help="Your student number."),
        click.option("--name", default="", callback=_one_line, help="Your name, for the title block."),
    ):  # fmt: skip
        verb = option(verb)
    return verb


def report_options(options: Mapping[str, Any], out: Path, **more: Any) -> "ReportOptions":
    """Returns the options of a report; reports of the course's suites bring their own sections."""
    from scalewise.course.homework import pages_of
    from scalewise.report.document import TitleBlock
    from scalewise.report.write import ReportOptions

    author = TitleBlock(options["name"], options["student_number"], options["course_name"])
    return ReportOptions(out=out, author=author, answers=options["answers"], pages_of=pages_of, **more)


def _one_line(_context: click.Context, option: click.Parameter, text: str) -> str:
    """One line that fits, or a sentence that says why not."""
    if not text.isprintable():
        raise click.BadParameter(f"{text[:20]!r} holds a character that cannot be printed; give one line of letters.")
    if len(text) > MOST_LETTERS:
        raise click.BadParameter(f"{text[:20]!r}... has {len(text)} letters; give one line of at most {MOST_LETTERS}.")
    return text.strip()
