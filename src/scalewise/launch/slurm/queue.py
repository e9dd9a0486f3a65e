"""Asks Slurm by its own commands, each with a time limit, and reads what they print; never JSON: its shape changes."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from scalewise.errors import BadRequest, did_you_mean
from scalewise.units import with_capital, without_stop

ASK_SECONDS = 20.0
COMMANDS = ("sbatch", "srun", "scontrol", "squeue", "scancel")
_LOST = re.compile(r"DOWN|FAIL|NOT_RESPONDING|\*")
_FIELD = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z0-9_/:]*)=")

# States in which the job may still come to run, or run again.
WAITING = (
    "PENDING",
    "REQUEUED",
    "REQUEUE_FED",
    "REQUEUE_HOLD",
    "PREEMPTED",
    "CONFIGURING",
    "SPECIAL_EXIT",
    "RESV_DEL_HOLD",
)
GOING = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")
# Reasons that no waiting mends, by how they begin, and what they mean.
HOPELESS = {
    "PartitionTimeLimit": "the time asked for is more than the partition allows",
    "PartitionNodeLimit": "more hosts were asked for than the partition gives to one job",
    "PartitionConfig": "the partition cannot give what was asked for",
    "BadConstraints": "no host has what was asked for",
    "InvalidAccount": "the account is not valid",
    "InvalidQOS": "the quality of service is not valid",
    "AssocMax": "a limit of your account is below what was asked for",
    "QOSMax": "a limit of the quality of service is below what was asked for",
    "AssocGrpCPULimit": "a limit of your account is below what was asked for",
    "DependencyNeverSatisfied": "a job that it depends on never succeeded",
}
# The limits of HOPELESS that hold only while other jobs of the same user run.
_PASSING = re.compile(r"(AssocGrp|QOSGrp|QOSMax\w*PerUser|AssocMaxJobs|QOSMaxJobs)")
REASONS = {
    "JobHeldAdmin": "an administrator holds the job",
    "launch_failed": "a host could not start it, and Slurm holds it: scontrol release lets it go",
    "JobHeldUser": "the job is held: scontrol release lets it go",
    "PartitionInactive": "the partition is inactive",
    "PartitionDown": "the partition is down",
    "Priority": "jobs of higher priority are in front",
    "Resources": "the hosts are in use by others",
    "Dependency": "it waits for another job",
    "BeginTime": "its begin time has not come",
    "ReqNodeNotAvail": "a host that it needs is not available",
    "NodeDown": "a host that it needs is down",
    "Reservation": "it waits for its reservation",
    "Licenses": "it waits for a licence",
    "QOSGrp": "the quality of service is in full use",
    "AssocGrp": "your account is in full use",
    "QOSMax": "a limit of the quality of service is reached by your jobs",
    "AssocMax": "a limit of your account is reached by your jobs",
    "BeginCleaning": "it is being cleaned up after a requeue",
}


class SlurmSilent(Exception):
    """The error for a command that did not answer, or said that the controller does not; asking again may help."""


@dataclass(frozen=True)
class JobState:
    """A job as `scontrol show job -o` tells it; every text is empty if Slurm does not say it."""

    job_id: int
    state: str  # PENDING, RUNNING, ...
    reason: str = ""
    start: str = ""  # time at which it started, or is expected to
    node_list: str = ""
    exit_code: str = ""  # as in 0:15, code and signal
    restarts: int = 0
    name: str = ""
    fields: tuple[tuple[str, str], ...] = ()

    @property
    def waits(self) -> bool:
        """Tells whether it is to run, for the first time or again."""
        return self.state in WAITING

    @property
    def ended(self) -> bool:
        """Tells whether it is over for good."""
        return self.state not in (*WAITING, *GOING)

    @property
    def hopeless(self) -> str:
        """The reason why it can never run, in words; empty if it can, or if that is not known."""
        if self.state != "PENDING" or _PASSING.match(self.reason):
            return ""
        return next((words for name, words in HOPELESS.items() if self.reason.startswith(name)), "")

    @property
    def reason_text(self) -> str:
        """The reason for which it waits, in words where they are known."""
        if self.reason in ("", "None", "(null)"):
            return ""
        words = self.hopeless or next((text for name, text in REASONS.items() if self.reason.startswith(name)), "")
        return f"{words} ({self.reason})" if words else self.reason


def fields_of(line: str) -> dict[str, str]:
    """The entries of a line of `scontrol ... -o`; a value may hold blanks and, after its first letter, `=`.

    What users can write (comments, the line by which a job was submitted) comes last and may look like an entry: the
    first of a name counts.
    """
    found = list(_FIELD.finditer(line))
    ends = [one.start() for one in found[1:]] + [len(line)]
    fields: dict[str, str] = {}
    for one, end in zip(found, ends, strict=False):
        fields.setdefault(one[1], line[one.end() : end].strip())
    return fields


def job_state(line: str) -> JobState | None:
    """The job of a line of `scontrol show job -o`; None if the line is no job."""
    fields = fields_of(line)
    if not fields.get("JobId", "").isdecimal():
        return None
    return JobState(
        job_id=int(fields["JobId"]),
        state=re.split(r"[\s,+]", fields.get("JobState", ""), maxsplit=1)[0],
        reason=fields.get("Reason", ""),
        start=_known(fields.get("StartTime", "")),
        node_list=_known(fields.get("NodeList", "")),
        exit_code=fields.get("ExitCode", ""),
        restarts=int(fields["Restarts"]) if fields.get("Restarts", "").isdecimal() else 0,
        name=fields.get("JobName", ""),
        fields=tuple(fields.items()),
    )


def submitted_id(printed: str) -> tuple[int, str]:
    """The number and the cluster in what `sbatch --parsable` prints, such as `17` or `17;blue`."""
    lines = [line for line in printed.strip().splitlines() if re.fullmatch(r"\d+(;\S+)?", line.strip())]
    if not lines:
        raise BadRequest(f"sbatch printed {printed.strip()[:80]!r} and no number of a job.", "Is it a wrapper?")
    number, _, cluster = lines[-1].strip().partition(";")
    return int(number), cluster


def queued_ids(printed: str) -> tuple[int, ...]:
    """The numbers of jobs in what `squeue -h -o %A` prints."""
    return tuple(int(line) for line in printed.split() if line.isdecimal())


def seconds_of(limit: str) -> float | None:
    """The length of a time of Slurm: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]].

    None if it is not written so, or has no end.
    """
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", limit)
    if match is None:
        return None
    days, first, second, third = (int(part) if part is not None else None for part in match.groups())
    if days is not None:
        return ((days * 24 + (first or 0)) * 60 + (second or 0)) * 60.0 + (third or 0)
    if third is not None:
        return ((first or 0) * 60 + (second or 0)) * 60.0 + third
    return (first or 0) * 60.0 + (second or 0)


def ask(*words: str, limit_seconds: float = ASK_SECONDS) -> str:
    """The output of one command; a BadRequest with Slurm's own line if it refuses."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=limit_seconds, check=False)
    except FileNotFoundError:
        raise no_slurm(words[0]) from None
    except subprocess.TimeoutExpired:
        raise SlurmSilent(f"{words[0]} did not answer within {limit_seconds:.0f} s") from None
    if done.returncode == 0:
        return done.stdout
    said = _last_line(done.stderr) or _last_line(done.stdout) or f"exit code {done.returncode}"
    if re.search(
        r"Unable to contact|Connection (refused|timed out)|Socket timed out|slurm_load_\w+ error: .*timed", said
    ):
        raise SlurmSilent(said)
    raise BadRequest(f"{words[0]} refused: {said}.", "That is what Slurm says.")


def no_slurm(command: str = "sbatch") -> BadRequest:
    """The error for a machine without Slurm's commands."""
    return BadRequest(
        f"There is no Slurm here: {command} was not found.",
        "Log in to a host of the cluster, or load its module; --launcher torchrun needs no Slurm.",
    )


def check_commands() -> None:
    """Refuses a machine on which a command of Slurm is missing."""
    for command in COMMANDS:
        if shutil.which(command) is None:
            raise no_slurm(command)


def show_job(job_id: int) -> JobState | None:
    """The job as the controller knows it; None if it does not know it, any more or at all."""
    try:
        return job_state(ask("scontrol", "show", "job", "-o", str(job_id)))
    except BadRequest as refusal:
        if "Invalid job id" in refusal.sentence:
            return None
        raise


def accounted_job(job_id: int) -> JobState | None:
    """The job as Slurm's accounting knows it; None where there is none, for nothing needs it."""
    try:
        printed = ask("sacct", "-j", str(job_id), "-X", "-n", "-P", "-o", "State,ExitCode,NodeList")
    except (BadRequest, SlurmSilent):
        return None
    return accounted_state(job_id, printed)


def accounted_state(job_id: int, printed: str) -> JobState | None:
    """The job in what `sacct -X -n -P -o State,ExitCode,NodeList` prints: its last line, if it has any."""
    lines = [line.split("|") for line in printed.splitlines() if line.count("|") >= 2]
    if not lines:
        return None
    state, exit_code, node_list = lines[-1][:3]
    first = re.split(r"[\s,+]", state.strip(), maxsplit=1)[0]
    return JobState(job_id, first, node_list=_known(node_list.strip()), exit_code=exit_code) if first else None


def lost_hosts(node_list: str) -> tuple[str, ...]:
    """The names of listed hosts that are down, or do not answer the controller."""
    lines = ask("scontrol", "show", "node", "-o", node_list).splitlines()
    fields = [fields_of(line) for line in lines]
    return tuple(one["NodeName"] for one in fields if "NodeName" in one and _LOST.search(one.get("State", "")))


def partitions() -> dict[str, dict[str, str]]:
    """The entries of every partition, by its name."""
    lines = ask("scontrol", "show", "partition", "-o").splitlines()
    found = [fields_of(line) for line in lines]
    return {fields["PartitionName"]: fields for fields in found if "PartitionName" in fields}


def check_partition(name: str, nodes: int, time: str) -> None:
    """Refuses what the partition could never give; an empty name means the default one."""
    known = partitions()
    if name and name not in known:
        near = did_you_mean(name, known) or f"There are: {', '.join(sorted(known))}."
        raise BadRequest(f"There is no partition {name!r} on this cluster.", with_capital(near))
    found = known.get(name) or next((one for one in known.values() if one.get("Default") == "YES"), {})
    called = found.get("PartitionName", "")
    if found.get("State", "UP") != "UP":
        raise BadRequest(f"The partition {called} is {found['State'].lower()}.", _others(known, called))
    total = found.get("TotalNodes", "")
    if total.isdecimal() and nodes > int(total):
        raise BadRequest(
            f"The partition {called} has {total} hosts, and {nodes} were asked for.", _others(known, called)
        )
    wanted, most = seconds_of(time) if time else None, seconds_of(found.get("MaxTime", ""))
    if time and wanted is None:
        raise BadRequest(f"time={time} is no time of Slurm.", "Write hours:minutes:seconds: time=00:30:00.")
    if wanted is not None and most is not None and wanted > most:
        raise BadRequest(
            f"time={time} is more than the partition {called} allows: {found['MaxTime']}.", "Ask for less."
        )


def host_names(node_list: str) -> tuple[str, ...]:
    """The names that a list such as `n[1-3,7]` stands for."""
    return tuple(ask("scontrol", "show", "hostnames", node_list).split())


def host_address(name: str) -> str:
    """The address by which other hosts reach it: its name need not resolve, or may mean 127.0.1.1 there."""
    return fields_of(ask("scontrol", "show", "node", "-o", name)).get("NodeAddr", name)


def _others(known: dict[str, dict[str, str]], name: str) -> str:
    others = [
        f"{one} ({fields.get('TotalNodes', '?')} hosts, {fields.get('State', '?').lower()})"
        for one, fields in sorted(known.items())
        if one != name
    ]
    return f"Other partitions: {', '.join(others)}." if others else "There is no other partition."


def _known(text: str) -> str:
    return "" if text in ("Unknown", "(null)", "N/A", "None") else text


def _last_line(text: str) -> str:
    lines: Sequence[str] = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()] or lines
    return without_stop(re.sub(r"^\w+: (error: )?", "", errors[-1])) if errors else ""
