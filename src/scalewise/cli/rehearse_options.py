"""The options of `scalewise rehearse`."""

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])

_OPTIONS = (
    click.argument("script", metavar="SCRIPT.py"),
    click.argument("args", nargs=-1, type=click.UNPROCESSED),
    click.option("--ranks", default="2,8,64", show_default=True, help="Numbers of ranks to predict."),
    click.option(
        "--link",
        default=None,
        metavar="LINK",
        help="What joins them: nvlink4, ethernet-10g, "
        "nvlink4+infiniband-ndrx8, measured, or a TOML file.  [default: measured, where they fit here]",
    ),
    click.option("--link-file", type=click.Path(path_type=Path, dir_okay=False), default=None, help="A link in TOML."),
    click.option("--per-node", type=int, default=None, help="Ranks of one node, where a link has two parts."),
    click.option(
        "--scaling",
        type=click.Choice(["strong", "weak", "script"]),
        default="script",
        show_default=True,
        help="strong: all ranks share the batch of one; weak: each has as much; script: as the script does it.",
    ),
    click.option("--memory", default=None, metavar="SIZE", help="Of one device there, such as 80GiB: does it fit?"),
    click.option("--price", type=float, default=None, metavar="PER_HOUR", help="Of one device, for the cost."),
    click.option("--steps", type=int, default=None, help="Of the whole training, for its hours and cost."),
    click.option(
        "--also",
        multiple=True,
        metavar="ARGS",
        help="Also rehearse with these arguments added, such as '--batch 128': what a sample costs is then known.",
    ),
    click.option("--no-check", is_flag=True, help="Do not measure what can be measured here."),
    click.option("--no-advice", is_flag=True, help="Only the numbers asked for, not what to change."),
    click.option("--html", type=click.Path(path_type=Path, dir_okay=False), default=None, help="Also write a page."),
    click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default=None, help="[default: auto]"),
    click.option("--limit", type=float, default=120.0, show_default=True, metavar="SECONDS", help="Of each run."),
    click.option(
        "--stall",
        type=float,
        default=20.0,
        show_default=True,
        metavar="SECONDS",
        help="End a run that stands still so long.",
    ),
    click.option("--in-place", is_flag=True, help="Work in this folder itself: the script may overwrite files in it."),
    click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("runs"), show_default=True),
)


def rehearse_options(command: Command) -> Command:
    """Adds them to the verb, in this order."""
    return reduce(lambda decorated, option: option(decorated), reversed(_OPTIONS), command)
