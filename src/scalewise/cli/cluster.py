"""Sends a verb to a cluster: its words are run again in a job there."""

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scalewise.errors import BadRequest

if TYPE_CHECKING:
    from scalewise.jobs.reporter import Reporter


def goes_to_slurm(options: Mapping[str, Any]) -> bool:
    """Tells whether the verb is to be a job that is not running yet; a BadRequest for options without a launcher."""
    if options["slurm"] and options["launcher"] != "slurm":
        raise BadRequest("--slurm has options for a launcher that was not chosen.", "Add: --launcher slurm.")
    if options["launcher"] != "slurm":
        return False
    from scalewise.launch.slurm.follow import inside

    return not inside()


def send(
    reporter: "Reporter",
    options: Mapping[str, Any],
    nodes: int = 1,
    files: Sequence[Path] = (),
) -> int:
    """Runs the words of this verb in a job, prints what it prints, and returns its exit code."""
    from scalewise.jobs.slurm_job import Sent, run_as_job
    from scalewise.launch.slurm.job import parse_options

    words = click.get_current_context().find_root().obj or sys.argv[1:]
    contents = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.is_file()]
    result = run_as_job(
        Sent(
            words=tuple(words),
            out=options.get("out") or Path("runs"),
            nodes=nodes,
            options=parse_options(options["slurm"]),
            decides=" ".join(contents),
            needed=tuple(path for path in files if path.is_file()),
            again=bool(options.get("again")),
        ),
        reporter,
    )
    sys.stdout.write(result.text)
    sys.stdout.flush()
    return result.code


def noted(reporter: "Reporter") -> "Reporter":
    """The reporter of a verb; inside a job it also notes how far the runs are, for whoever follows the job."""
    path = os.environ.get("SCALEWISE_JOB")
    if not path:
        return reporter
    from scalewise.jobs.slurm_job import LiveNotes

    return LiveNotes(reporter, Path(path))
