"""Writes the script of a job: a pure function of the command, the folder and the options for Slurm."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scalewise.errors import BadRequest, did_you_mean
from scalewise.launch.slurm.queue import seconds_of
from scalewise.records.submission import JobFolder
from scalewise.units import with_capital

JOURNAL = "SCALEWISE_JOB"  # tells the command inside the job in which file it notes how far it is
WARNING_SECONDS = 60  # before the end of its time, the job is told
_LEAST_WARNING_SECONDS = 10
OWN = ("resubmit", "wait")  # options for scalewise, not for Slurm
# What scalewise says itself; another value would break the job.
_OURS = (
    "nodes", "ntasks", "ntasks-per-node", "array", "wrap", "output", "error", "job-name", "chdir", "signal", "parsable",
    "requeue", "no-requeue", "open-mode", "input", "test-only", "wait-all-nodes",
)  # fmt: skip
# Words of sbatch that are often needed, to find the one that was meant.
_KNOWN = (
    "account", "partition", "time", "qos", "gres", "gpus", "gpus-per-node", "gpus-per-task", "cpus-per-task", "mem",
    "mem-per-cpu", "constraint", "exclude", "nodelist", "reservation", "exclusive", "begin", "dependency", "mail-type",
    "mail-user", "licenses", "nice", "switches", "tmp", "mincpus", "comment", "wckey", "clusters", "prefer", "hint",
    "threads-per-core", "cores-per-socket", "sockets-per-node", "contiguous", "deadline", "priority", "export",
    "oversubscribe", "mem-per-gpu", "cpus-per-gpu", "gpu-bind", "network", "power", "spread-job", "use-min-nodes",
)  # fmt: skip
_SHARING = ("exclusive", "oversubscribe", "cpus-per-task", "cpus-per-gpu", "mincpus")


@dataclass(frozen=True)
class JobRequest:
    """A command that is to run as a job."""

    argv: tuple[str, ...]  # interpreter, and the words of the command
    cwd: str
    needed: tuple[str, ...]  # files that must be there on the host that runs it
    nodes: int
    options: Mapping[str, str]
    name: str


def parse_options(texts: Sequence[str]) -> dict[str, str]:
    """The options in words such as `partition=gpu,time=00:30:00`; a value may hold commas, a word alone is a switch."""
    options: dict[str, str] = {}
    for text in texts:
        for part in re.split(r",(?=[A-Za-z][\w-]*(?:=|,|$))", text):
            name, _, value = part.strip().removeprefix("--").partition("=")
            name = name.replace("_", "-")
            if not name:
                raise BadRequest(f"--slurm {text!r} names no option.", "Write it as --slurm KEY=VALUE,KEY=VALUE.")
            if name in options:
                raise BadRequest(f"--slurm says {name} twice.", "Say it once.")
            options[name] = value
    return options


def check_options(options: Mapping[str, str]) -> None:
    """Refuses options that scalewise sets itself, or that neither it nor sbatch knows by that name."""
    for name, value in options.items():
        if name in _OURS:
            instead = {"nodes": "Use --nodes.", "ntasks": "Use --ranks and --nodes."}.get(name, "Leave it out.")
            raise BadRequest(f"--slurm {name}={value} is set by scalewise itself.", instead)
        near = did_you_mean(name, (*_KNOWN, *OWN)) if name not in (*_KNOWN, *OWN) else ""
        if near:
            raise BadRequest(f"--slurm {name} is no option of sbatch.", with_capital(near))
    if "resubmit" in options and not options["resubmit"].isdecimal():
        raise BadRequest(f"--slurm resubmit={options['resubmit']} is no number.", "Write it as --slurm resubmit=3.")
    for name in ("wait", "time"):
        if name in options and seconds_of(options[name]) is None:
            said = f"--slurm {name}={options[name]} is no time of Slurm."
            raise BadRequest(said, f"Write hours:minutes:seconds: {name}=00:30:00.")


def job_script(request: JobRequest, folder: JobFolder) -> str:
    """The text of `job.sh`."""
    options = {name: value for name, value in request.options.items() if name not in OWN}
    if not set(_SHARING) & set(options):
        options["exclusive"] = ""  # a measurement wants whole hosts
    elif options.get("exclusive") == "no":
        del options["exclusive"]
    warning = _warning_seconds(options.get("time", ""))
    header = {
        "job-name": request.name,
        "nodes": str(request.nodes),
        "ntasks-per-node": "1",
        "output": f"{folder.path}/job-%j.log",
        "open-mode": "append",
        "requeue": "",
        "signal": f"B:USR1@{warning}",
        **options,
    }
    lines = [f"#SBATCH --{name}{'=' + shlex.quote(value) if value else ''}" for name, value in header.items()]
    checks = "\n".join(
        f"[ -e {shlex.quote(path)} ] || refuse {shlex.quote(path + ' is not there')}" for path in request.needed
    )
    return _TEXT.format(
        header="\n".join(lines),
        folder=shlex.quote(str(folder.path)),
        cwd=shlex.quote(request.cwd),
        checks=checks,
        command=shlex.join(request.argv),
        journal=JOURNAL,
        resubmit=int(request.options.get("resubmit") or 0),
        grace=max(1, warning // 2),
    )


def _warning_seconds(time: str) -> int:
    """The seconds by which the job is told before its end: a minute, or less for a short job."""
    most = seconds_of(time) if time else None
    return WARNING_SECONDS if most is None else int(min(WARNING_SECONDS, max(_LEAST_WARNING_SECONDS, most / 4)))


_TEXT = """#!/bin/bash
{header}
# Written by scalewise: runs one of its commands on the first host of the job. Each run of it is one step of srun.
folder={folder}
job=$SLURM_JOB_ID
leave() {{
    echo "$1" "${{SLURM_RESTART_COUNT:-0}}" > "$folder/ended-$job.aside"
    mv "$folder/ended-$job.aside" "$folder/ended-$job"
}}
refuse() {{
    echo "scalewise: on $(hostname) $1: the job's hosts must share it" >> "$folder/narration-$job.log"
    leave 1
    exit 1
}}
echo "$SLURM_JOB_NODELIST" > "$folder/began-$job" || exit 1
rm -f "$folder/ended-$job" "$folder/out-of-time-$job"
cd {cwd} || refuse {cwd}" cannot be entered"
{checks}
{journal}="$folder/live-$job.json" {command} > "$folder/result-$job.aside" 2>> "$folder/narration-$job.log" &
command=$!
# Nearly out of time: no further run is begun, and the one that is being made has half of what is left.
trap 'touch "$folder/out-of-time-$job"; kill -USR1 $command; (sleep {grace}; kill -TERM $command) 2> /dev/null &' USR1
# Slurm itself tells every process of a job that it is to end; this one stays until the command has ended, and leaves
# no exit code: the job may run again.
stopped=
trap 'stopped=yes' TERM INT
wait $command
code=$?
while kill -0 $command 2> /dev/null; do
    wait $command
    code=$?
done
[ -z "$stopped" ] || exit 1
mv "$folder/result-$job.aside" "$folder/result-$job.txt"
if [ -e "$folder/out-of-time-$job" ] && [ "${{SLURM_RESTART_COUNT:-0}}" -lt {resubmit} ]; then
    exec scontrol requeue "$job"
fi
leave $code
"""
