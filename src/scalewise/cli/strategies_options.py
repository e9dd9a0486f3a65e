"""The options of `strategies`."""

from functools import reduce
from pathlib import Path

import click

from scalewise.cli.options import Verb, device_option, out_option, page_option

_STRATEGIES_OPTIONS = (
    click.argument("script", metavar="SCRIPT.py"),
    click.argument("args", nargs=-1, type=click.UNPROCESSED),
    click.option("--ranks", type=int, default=2, show_default=True),
    click.option("--only", default=None, metavar="LIST", help="Only these strategies, such as ddp,zero1.  "
                 "[default: all]"),
    click.option("--steps", type=int, default=40, show_default=True, help="Of each measured run."),
    click.option("--repeat", type=int, default=3, show_default=True, help="Fresh runs of each, interleaved."),
    click.option("--no-parity", is_flag=True, help="Do not compare what each computes with one rank."),
    click.option("--no-causes", is_flag=True, help="Do not look for the cause where they differ."),
    click.option("--predict", default=None, metavar="LIST", help="Also predict these numbers of ranks, such as 8,64."),
    click.option("--link", default=None, metavar="LINK", help="What joins them, such as nvlink4+infiniband-ndrx8.  "
                 "[default: measured, where they fit here]"),
    click.option("--per-node", type=int, default=None, help="Ranks of one node, where a link has two parts.  "
                 "[default: 8]"),
    click.option("--memory", default=None, metavar="SIZE", help="Of one device there, such as 80GiB: what fits?"),
    device_option,
    click.option("--limit", type=float, default=120.0, show_default=True, metavar="SECONDS", help="Of each run."),
    click.option("--stall", type=float, default=30.0, show_default=True, metavar="SECONDS",
                 help="End a run that stands still so long."),
    page_option,
    click.option("--pdf", type=click.Path(path_type=Path, dir_okay=False), default=None, help="Also write a PDF."),
    out_option,
)  # fmt: skip


def strategies_options(verb: Verb) -> Verb:
    """Adds them to the verb, in this order."""
    return reduce(lambda decorated, option: option(decorated), reversed(_STRATEGIES_OPTIONS), verb)
