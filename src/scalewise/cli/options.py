"""The options of every verb: those that several have are declared once, and each verb's list names its own beside them.

An option is named as the field of the request that it fills; `cli/request.py` reads those that are not.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from scalewise.records.spec import LauncherName

if TYPE_CHECKING:
    from scalewise.report.write import ReportOptions

Verb = TypeVar("Verb", bound=Callable[..., Any])
Option = Callable[[Any], Any]
MOST_LETTERS = 80  # of a name: the title block has one line for it

_PATH = click.Path(path_type=Path)
_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)


def with_options(*options: Option) -> Callable[[Verb], Verb]:
    """Gives a verb these options and arguments, in this order."""
    return lambda verb: reduce(lambda made, option: option(made), reversed(options), verb)


def _flag(name: str, help: str) -> Option:
    return click.option(name, is_flag=True, help=help)


def _without(name: str, field: str, help: str) -> Option:
    """A flag that sets a field of the request to False."""
    return click.option(name, field, is_flag=True, callback=lambda _context, _option, given: not given, help=help)


def _file(name: str, help: str, metavar: str | None = None) -> Option:
    return click.option(name, type=_FILE, default=None, metavar=metavar, help=help)


def _folder(name: str, default: str, help: str | None = None) -> Option:
    return click.option(name, type=_FOLDER, default=Path(default), show_default=True, help=help)


def _number(name: str, kind: type, help: str, metavar: str | None = None, field: str | None = None) -> Option:
    return click.option(name, *filter(None, [field]), type=kind, default=None, metavar=metavar, help=help)


def _shown(name: str, default: int | str, help: str | None = None) -> Option:
    """An option whose default is a value that the help can show."""
    return click.option(name, type=type(default), default=default, show_default=True, help=help)


def _seconds(name: str, default: float, help: str) -> Option:
    return click.option(f"--{name}", f"{name}_seconds", type=float, default=default, show_default=True,
                        metavar="SECONDS", help=help)  # fmt: skip


def _text(name: str, metavar: str, help: str, multiple: bool = False) -> Option:
    return click.option(name, multiple=multiple, default=() if multiple else None, metavar=metavar, help=help)


def _on_cpu(help: str) -> Option:
    return click.option("--on", type=click.Choice(["cpu"]), default=None, help=help)


_JSON = click.option("--json", "as_json", is_flag=True, help="Give the result as JSON on stdout.")
_QUIET = click.option("--quiet", "-q", is_flag=True, help="No narration, only results and errors.")
_PRINTS = (_JSON, _QUIET)
_SCRIPT = click.argument("script", metavar="SCRIPT.py", type=_PATH)
_ARGS = click.argument("args", nargs=-1, type=click.UNPROCESSED)
_RANKS = _shown("--ranks", 2)
_DEVICE = click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default=None, help="[default: auto]")
_OUT = _folder("--out", "runs")
_HTML = _file("--html", "Also write a page.")
_IN_PLACE = _flag("--in-place", "Let the script work in this folder itself and write its files there.  "
                  "[default: in a private view of it]")  # fmt: skip
_AGAIN = _flag("--again", "Measure anew, beside what was measured before.")
_SLURM = _text("--slurm", "KEY=VALUE,...", "Options of sbatch for --launcher slurm: "
               "partition=gpu,time=00:30:00,account=x.", multiple=True)  # fmt: skip
_AS_JOB = (
    click.option("--launcher", type=click.Choice(["slurm"]), default=None, help="Run it as a job of Slurm."),
    _SLURM,
)
_LIMIT = _seconds("limit", 120.0, "Of each run.")
_PER_NODE = _number("--per-node", int, "Ranks of one node, where a link has two parts.")
STANDS_STILL = "End a run that stands still so long."

MACHINE = (
    _flag("--measure", "Also measure how fast a device is, and what lies between ranks."),
    click.option("--nodes", type=int, default=1, help="With --measure and --launcher slurm: also what lies between "
                 "hosts, as a link file for rehearse."),
    *_AS_JOB,
    _OUT,
    *_PRINTS,
)  # fmt: skip
RUN = (
    click.argument("what", metavar="SCRIPT.py|SUITE"),
    _ARGS,
    click.option("--ranks", default=None, help="World sizes of a script, such as 1,2,4.  [default: 1]"),
    _number("--repeat", int, "Fresh runs of each arm, interleaved.  [default: 1]"),
    _text("--change", "WHAT", "A further arm with one thing changed from outside: remove_communication, "
          "sleep_before_backward:0.01, slow_rank:0.02@0, emulate_link:1ms,1GB/s, workers:4, or a fix that the doctor "
          "applies, such as no_sync:window=4.", multiple=True),
    _text("--emulate-link", "LATENCY,RATE", "Hold messages back as a link of, say, 1ms,1GB/s would."),
    _flag("--turns", "Let the arms take turns step by step: small differences show."),
    _flag("--inspect", "One more run of each arm, not timed: memory by purpose, transfers, who works when, gradients."),
    _file("--trace", "Also write a step of all ranks as a trace for ui.perfetto.dev; inspects."),
    _flag("--plain", "Run as `python SCRIPT.py`: one process, no process group."),
    _number("--devices", int, "Show each process N GPUs; where fewer are there, all are stand-ins on one GPU or on "
            "the CPU, with real copies between them.", "N"),
    _DEVICE,
    click.option("--launcher", type=click.Choice(get_args(LauncherName)), default=None, help="[default: fork]"),
    _number("--steps", int, "End each run when every rank has made so many steps.  [default: the script ends it]", "N"),
    _text("--env", "NAME=VALUE", "An environment variable for the script.", multiple=True),
    _number("--limit", float, "End a run that takes longer.", "SECONDS"),
    _number("--stall", float, STANDS_STILL, "SECONDS"),
    _text("--nodes", "N", "Hosts on which the ranks lie, equally many on each, for the launchers slurm and torchrun.  "
          "[default: 1]"),
    _SLURM,
    click.option("--node-rank", type=int, default=0, help="Number of this host, where it is started by hand on each."),
    click.option("--master", default="", metavar="HOST:PORT", help="Where host 0 listens."),
    _flag("--full", "A suite's own sizes, even where the machine is small for them."),
    _IN_PLACE,
    _OUT,
    _AGAIN,
    *_PRINTS,
)  # fmt: skip
DOCTOR = (
    click.argument("script", metavar="SCRIPT.py", type=_PATH, required=False),
    _ARGS,
    _RANKS,
    click.option("--nodes", type=int, default=1, help="Hosts on which the ranks lie, with --launcher slurm."),
    *_AS_JOB,
    _flag("--plain", "Run as `python SCRIPT.py`: for one process, or a script that starts its ranks itself."),
    _on_cpu("Examine a script for GPUs on CPU ranks."),
    _text("--change", "WHAT", "Examine it with one thing changed from outside, such as emulate_link:1ms,1GB/s."),
    _DEVICE,
    _seconds("limit", 60.0, "Judge what was seen until then."),
    _seconds("stall", 20.0, "A hang is a standstill of so long."),
    _without("--no-replay", "replays", "Only observe: nothing is run again with a fix applied."),
    _HTML,
    _file("--sarif", "Also write SARIF, which editors and code hosts show at the line."),
    click.option("--list", "list_checks", is_flag=True, help="What can be found."),
    _text("--explain", "NAME", "More about one check."),
    _OUT,
    _IN_PLACE,
    *_PRINTS,
)
PARITY = (
    _SCRIPT,
    _ARGS,
    _RANKS,
    _shown("--steps", 6, "Optimizer steps that are compared."),
    _file("--against", "Compare with another script instead of with one rank.", "OTHER.py"),
    _flag("--resume", "Compare a run with one that is ended after its first checkpoint and started again."),
    _text("--resume-args", "WORDS", "The script's arguments when it is started again.  [default: the same]"),
    _without("--no-causes", "causes", "Only compare: nothing is run again to find the cause."),
    _on_cpu("Compare a script for GPUs on CPU ranks."),
    _text("--change", "WHAT", "Compare with one thing changed from outside."),
    _DEVICE,
    _LIMIT,
    _seconds("stall", 30.0, STANDS_STILL),
    _HTML,
    _OUT,
    _IN_PLACE,
    *_PRINTS,
)
STRATEGIES = (
    _SCRIPT,
    _ARGS,
    _RANKS,
    _text("--only", "LIST", "Only these strategies, such as ddp,zero1.  [default: all]"),
    _shown("--steps", 40, "Of each measured run."),
    click.option("--repeat", "repeats", type=int, default=3, show_default=True,
                 help="Fresh runs of each, interleaved."),
    _without("--no-parity", "parity", "Do not compare what each computes with one rank."),
    _without("--no-causes", "causes", "Do not look for the cause where they differ."),
    _text("--predict", "LIST", "Also predict these numbers of ranks, such as 8,64."),
    _text("--link", "LINK", "What joins them, such as nvlink4+infiniband-ndrx8.  "
          "[default: measured, where they fit here]"),
    _number("--per-node", int, "Ranks of one node, where a link has two parts.  [default: 8]"),
    _text("--memory", "SIZE", "Of one device there, such as 80GiB: what fits?"),
    _DEVICE,
    _LIMIT,
    _seconds("stall", 30.0, STANDS_STILL),
    _HTML,
    _file("--pdf", "Also write a PDF."),
    _OUT,
    _IN_PLACE,
    *_PRINTS,
)  # fmt: skip
REHEARSE = (
    _SCRIPT,
    _ARGS,
    _shown("--ranks", "2,8,64", "Numbers of ranks to predict."),
    _text("--link", "LINK", "What joins them: nvlink4, ethernet-10g, nvlink4+infiniband-ndrx8, measured, or a TOML "
          "file.  [default: measured, where they fit here]"),
    _file("--link-file", "A link in TOML."),
    _PER_NODE,
    click.option("--scaling", type=click.Choice(["strong", "weak", "script"]), default="script", show_default=True,
                 help="strong: all ranks share the batch of one; weak: each has as much; script: as the script "
                 "does it."),
    _text("--memory", "SIZE", "Of one device there, such as 80GiB: does it fit?"),
    _number("--price", float, "Of one device, for the cost.", "PER_HOUR", field="price_per_hour"),
    _number("--steps", int, "Of the whole training, for its hours and cost."),
    _text("--also", "ARGS", "Also rehearse with these arguments added, such as '--batch 128': what a sample costs is "
          "then known.", multiple=True),
    _file("--keep-computing", "Also write what was computed here, for --computing-from elsewhere.", "FILE"),
    _file("--computing-from", "Take computing from such a record of another machine; needs --link.", "FILE"),
    _without("--no-check", "check", "Do not measure what can be measured here."),
    _without("--no-advice", "advice", "Only the numbers asked for, not what to change."),
    _HTML,
    _DEVICE,
    _LIMIT,
    _seconds("stall", 20.0, STANDS_STILL),
    _flag("--in-place", "Work in this folder itself: the script may overwrite files in it."),
    _OUT,
    *_PRINTS,
)  # fmt: skip
EXTRAPOLATE = (
    click.argument("source", metavar="TABLE.csv|RUNS", type=_PATH),
    _text("--nodes", "LIST", "Numbers of nodes to predict, such as 4,8,16.  [default: 2, 4 and 8 times the most that "
          "were measured]"),
    _number("--per-node", int, "GPUs of each node.  [default: of the fullest one that was measured]", "N"),
    _text("--placement", "1124", "Also uneven nodes, here of 1, 1, 2 and 4 GPUs.", multiple=True),
    _text("--link", "LINK", "What joins GPUs and nodes, if no row has two nodes, such as pcie3+ethernet-25g."),
    _text("--model", "NAME", "Only this model of the table.", multiple=True),
    click.option("--local-batch", multiple=True, type=float, metavar="N", help="Only this batch of each GPU, which "
                 "need not be one of the table."),
    _HTML,
    *_PRINTS,
)  # fmt: skip
SHOW = (
    click.argument("folder", metavar="RUN", type=_PATH),
    _file("--trace", "Also write a step of its inspected run as a trace."),
    *_PRINTS,
)
COMPARE = (
    click.argument("a", metavar="A", type=_PATH),
    click.argument("b", metavar="B", type=_PATH),
    click.option("--allow", multiple=True, help="A difference in the work that is meant, such as precision."),
    *_PRINTS,
)
CHECK = (
    click.argument("name", metavar="TASK"),
    _SCRIPT,
    _ARGS,
    _RANKS,
    _on_cpu("Let CPU cores stand in for GPUs, as they do where there are too few."),
    _DEVICE,
    _seconds("limit", 120.0, "Judge what was seen until then."),
    _OUT,
    *_PRINTS,
)


def _one_line(_context: click.Context, _option: click.Parameter, text: str) -> str:
    """One line that fits, or a sentence that says why not."""
    if not text.isprintable():
        raise click.BadParameter(f"{text[:20]!r} holds a character that cannot be printed; give one line of letters.")
    if len(text) > MOST_LETTERS:
        raise click.BadParameter(f"{text[:20]!r}... has {len(text)} letters; give one line of at most {MOST_LETTERS}.")
    return text.strip()


_AUTHOR = (
    click.option("--name", default="", callback=_one_line, help="Your name, for the title block."),
    click.option("--id", "student_number", default="", callback=_one_line, help="Your student number."),
    click.option("--course-name", default="", callback=_one_line, help="The course, for the title block."),
    click.option("--answers", type=click.Choice(["full", "hints"]), default="full", show_default=True,
                 help="hints: fill tables and figures, and leave lines for your own answers."),
)  # fmt: skip
COURSE = (
    _flag("--full", "The course's own sizes, even where the machine is small for them."),
    _DEVICE,
    _OUT,
    _folder("--reports", "reports"),
    _AGAIN,
    _flag("--predict", "Ask before measuring what you expect, and show it beside what was measured."),
    *_AS_JOB,
    *_AUTHOR,
    *_PRINTS,
)
REPORT = (
    click.argument("folders", metavar="RUN...", nargs=-1, required=True, type=_PATH),
    _folder("--out", "reports"),
    click.option("--format", "formats", default="pdf,html,tables", show_default=True, help="What to write."),
    _flag("--link-raw-rows", "Let the HTML link to the measured steps in the folder of the runs."),
    *_AUTHOR,
    _QUIET,
)
HANDIN = (
    click.argument("homework"),
    _folder("--runs", "runs", "Where it was measured."),
    _file("--out", "[default: HOMEWORK-NAME.zip]"),
    *_AUTHOR,
    _QUIET,
)


def report_options(options: Mapping[str, Any], out: Path, **more: Any) -> "ReportOptions":
    """Returns the options of a report; reports of the course's suites bring their own sections."""
    from scalewise.course.homework import pages_of
    from scalewise.report.document import TitleBlock
    from scalewise.report.write import ReportOptions

    author = TitleBlock(options["name"], options["student_number"], options["course_name"])
    return ReportOptions(out=out, author=author, answers=options["answers"], pages_of=pages_of, **more)
