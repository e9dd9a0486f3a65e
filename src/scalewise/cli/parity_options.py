"""The options of `parity`."""

from functools import reduce
from pathlib import Path

import click

from scalewise.cli.options import Verb, device_option, out_option, page_option

_PARITY_OPTIONS = (
    click.argument("script", metavar="SCRIPT.py"),
    click.argument("args", nargs=-1, type=click.UNPROCESSED),
    click.option("--ranks", type=int, default=2, show_default=True),
    click.option("--steps", type=int, default=6, show_default=True, help="Optimizer steps that are compared."),
    click.option("--against", type=click.Path(path_type=Path, dir_okay=False), default=None, metavar="OTHER.py",
                 help="Compare with another script instead of with one rank."),
    click.option("--resume", is_flag=True, help="Compare a run with one that is ended after its first checkpoint and "
                 "started again."),
    click.option("--resume-args", default=None, metavar="WORDS", help="The script's arguments when it is started again."
                 "  [default: the same]"),
    click.option("--no-causes", is_flag=True, help="Only compare: nothing is run again to find the cause."),
    click.option("--on", type=click.Choice(["cpu"]), default=None, help="Compare a script for GPUs on CPU ranks."),
    click.option("--change", default=None, metavar="WHAT", help="Compare with one thing changed from outside."),
    device_option,
    click.option("--limit", type=float, default=120.0, show_default=True, metavar="SECONDS", help="Of each run."),
    click.option("--stall", type=float, default=30.0, show_default=True, metavar="SECONDS",
                 help="End a run that stands still so long."),
    page_option,
    out_option,
)  # fmt: skip


def parity_options(verb: Verb) -> Verb:
    """Adds them to the verb, in this order."""
    return reduce(lambda decorated, option: option(decorated), reversed(_PARITY_OPTIONS), verb)
