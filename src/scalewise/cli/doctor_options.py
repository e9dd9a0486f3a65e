"""The options of `doctor`."""

from functools import reduce
from pathlib import Path

import click

from scalewise.cli.cluster import slurm_options
from scalewise.cli.options import Verb, device_option, out_option, page_option

_DOCTOR_OPTIONS = (
    click.argument("script", metavar="SCRIPT.py", required=False),
    click.argument("args", nargs=-1, type=click.UNPROCESSED),
    click.option("--ranks", type=int, default=2, show_default=True),
    click.option("--nodes", type=int, default=1, help="Hosts on which the ranks lie, with --launcher slurm."),
    slurm_options,
    click.option("--plain", is_flag=True, help="Run as `python SCRIPT.py`: for one process, or a script that "
                 "starts its ranks itself."),
    click.option("--on", type=click.Choice(["cpu"]), default=None, help="Examine a script for GPUs on CPU ranks."),
    click.option("--change", default=None, metavar="WHAT", help="Examine it with one thing changed from outside, such "
                 "as emulate_link:1ms,1GB/s."),
    device_option,
    click.option("--limit", type=float, default=60.0, show_default=True, metavar="SECONDS", help="Judge what was seen "
                 "until then."),
    click.option("--stall", type=float, default=20.0, show_default=True, metavar="SECONDS", help="A hang is a "
                 "standstill of so long."),
    click.option("--no-replay", is_flag=True, help="Only observe: nothing is run again with a fix applied."),
    page_option,
    click.option("--sarif", type=click.Path(path_type=Path, dir_okay=False), default=None, help="Also write SARIF, "
                 "which editors and code hosts show at the line."),
    click.option("--list", "list_checks", is_flag=True, help="What can be found."),
    click.option("--explain", metavar="NAME", default=None, help="More about one check."),
    out_option,
)  # fmt: skip


def doctor_options(verb: Verb) -> Verb:
    """Adds them to the verb, in this order."""
    return reduce(lambda decorated, option: option(decorated), reversed(_DOCTOR_OPTIONS), verb)
