"""Options that several verbs have, and those of `rehearse`."""

from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from scalewise.report.write import ReportOptions

Verb = TypeVar("Verb", bound=Callable[..., Any])
MOST_LETTERS = 80  # of a name: the title block has one line for it

device_option = click.option(
    "--device", type=click.Choice(["auto", "cpu", "cuda"]), default=None, help="[default: auto]"
)
out_option = click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=Path("runs"), show_default=True
)
page_option = click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), default=None, help="Also write a page."
)
_EXTRAPOLATE_OPTIONS = (
    click.argument("source", metavar="TABLE.csv|RUNS", type=click.Path(path_type=Path)),
    click.option("--nodes", default=None, metavar="LIST", help="Numbers of nodes to predict, such as 4,8,16.  "
                 "[default: 2, 4 and 8 times the most that were measured]"),
    click.option("--per-node", type=int, default=None, metavar="N", help="GPUs of each node.  [default: of the fullest "
                 "one that was measured]"),
    click.option("--placement", multiple=True, metavar="1124", help="Also uneven nodes, here of 1, 1, 2 and 4 GPUs."),
    click.option("--link", default=None, metavar="LINK", help="What joins GPUs and nodes, if no row has two nodes, "
                 "such as pcie3+ethernet-25g."),
    click.option("--model", multiple=True, metavar="NAME", help="Only this model of the table."),
    click.option("--local-batch", multiple=True, type=float, metavar="N", help="Only this batch of each GPU, which "
                 "need not be one of the table."),
    page_option,
)  # fmt: skip
_REHEARSE_OPTIONS = (
    click.argument("script", metavar="SCRIPT.py"),
    click.argument("args", nargs=-1, type=click.UNPROCESSED),
    click.option("--ranks", default="2,8,64", show_default=True, help="Numbers of ranks to predict."),
    click.option("--link", default=None, metavar="LINK", help="What joins them: nvlink4, ethernet-10g, "
                 "nvlink4+infiniband-ndrx8, measured, or a TOML file.  [default: measured, where they fit here]"),
    click.option("--link-file", type=click.Path(path_type=Path, dir_okay=False), default=None, help="A link in TOML."),
    click.option("--per-node", type=int, default=None, help="Ranks of one node, where a link has two parts."),
    click.option("--scaling", type=click.Choice(["strong", "weak", "script"]), default="script", show_default=True,
                 help="strong: all ranks share the batch of one; weak: each has as much; script: as the script "
                 "does it."),
    click.option("--memory", default=None, metavar="SIZE", help="Of one device there, such as 80GiB: does it fit?"),
    click.option("--price", type=float, default=None, metavar="PER_HOUR", help="Of one device, for the cost."),
    click.option("--steps", type=int, default=None, help="Of the whole training, for its hours and cost."),
    click.option("--also", multiple=True, metavar="ARGS", help="Also rehearse with these arguments added, such as "
                 "'--batch 128': what a sample costs is then known."),
    click.option("--keep-computing", type=click.Path(path_type=Path, dir_okay=False), default=None, metavar="FILE",
                 help="Also write what was computed here, for --computing-from elsewhere."),
    click.option("--computing-from", type=click.Path(path_type=Path, dir_okay=False), default=None, metavar="FILE",
                 help="Take computing from such a record of another machine; needs --link."),
    click.option("--no-check", is_flag=True, help="Do not measure what can be measured here."),
    click.option("--no-advice", is_flag=True, help="Only the numbers asked for, not what to change."),
    page_option,
    device_option,
    click.option("--limit", type=float, default=120.0, show_default=True, metavar="SECONDS", help="Of each run."),
    click.option("--stall", type=float, default=20.0, show_default=True, metavar="SECONDS",
                 help="End a run that stands still so long."),
    click.option("--in-place", is_flag=True, help="Work in this folder itself: the script may overwrite files in it."),
    out_option,
)  # fmt: skip


def extrapolate_options(verb: Verb) -> Verb:
    """Adds the options of `extrapolate` to a verb."""
    return reduce(lambda made, option: option(made), reversed(_EXTRAPOLATE_OPTIONS), verb)


def rehearse_options(verb: Verb) -> Verb:
    """Adds them to the verb, in this order."""
    return reduce(lambda decorated, option: option(decorated), reversed(_REHEARSE_OPTIONS), verb)


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
