"""Runs a command as a job of Slurm: checks what can be checked, and has it submitted or finds it again."""

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scalewise.errors import BadRequest
from scalewise.jobs.reporter import Job, Reporter
from scalewise.launch.campaign import Listener, disk_trouble_explained
from scalewise.launch.slurm import follow as following
from scalewise.launch.slurm import queue
from scalewise.launch.slurm.follow import command_code, end_text
from scalewise.launch.slurm.job import JobRequest, check_options
from scalewise.launch.slurm.losses import avoided_hosts, options_without
from scalewise.launch.slurm.queue import SlurmSilent, seconds_of
from scalewise.records.codec import decode, encode
from scalewise.records.outcome import Outcome
from scalewise.records.pulse import Pulse
from scalewise.records.spec import RunSpec
from scalewise.records.submission import JobFolder

FAILED = 2  # exit code of a command whose job did not come to its end
_DONE = (0, 3)  # exit codes of a command that has made all it was asked for


@dataclass(frozen=True)
class Sent:
    """A command that is to run as a job."""

    words: tuple[str, ...]  # of the command line
    out: Path
    nodes: int
    options: Mapping[str, str]
    decides: str  # text that decides which command this is: scripts and their contents
    needed: tuple[Path, ...] = ()  # files that the job's host must have
    again: bool = False


@dataclass(frozen=True)
class JobResult:
    """The output of the command in its job, and its exit code."""

    text: str
    code: int


def run_as_job(sent: Sent, reporter: Reporter) -> JobResult:
    """Follows the job of this command, which is submitted unless it waits, runs or has done everything already."""
    check_options(sent.options)
    queue.check_commands()
    digest = hashlib.sha256(json.dumps([sent.words, str(Path.cwd()), sent.decides]).encode()).hexdigest()[:8]
    folder = JobFolder((sent.out / f".slurm-{digest}").resolve())
    try:
        return _followed(sent, folder, f"scalewise-{digest}", reporter)
    except SlurmSilent as silence:
        raise BadRequest(f"Slurm does not answer: {silence}.", "Try again, or ask whether slurmctld runs.") from None


def _followed(sent: Sent, folder: JobFolder, name: str, reporter: Reporter) -> JobResult:
    known = following.known_submission(folder)
    if known is not None and command_code(folder, known.job_id) in _DONE and not sent.again:
        reporter.say(f"made before, by job {known.job_id}; --again makes it anew")
        return _result(folder, known.job_id, command_code(folder, known.job_id) or 0)
    if known is None or command_code(folder, known.job_id) is not None or not following.still_there(known.job_id):
        queue.check_partition(sent.options.get("partition", ""), sent.nodes, sent.options.get("time", ""))
        argv = (sys.executable, "-m", "scalewise", *sent.words)
        needed = (sys.executable, *(str(path.resolve()) for path in sent.needed))
        avoided = avoided_hosts(known.losses if known is not None else ())
        options = options_without(sent.options, sent.nodes, avoided)
        request = JobRequest(argv, str(Path.cwd()), needed, sent.nodes, options, name)
        with disk_trouble_explained(sent.out):
            known = following.submit(request, folder, sent.words)
        reporter.say(f"submitted as job {known.job_id}; its files are in {folder.path}")
    else:
        reporter.say(f"follows job {known.job_id}")
    try:
        with reporter.runs("follow") as listener:
            wait = sent.options.get("wait")
            end = following.follow_job(
                folder, known.job_id, _Told(reporter, listener), seconds_of(wait) if wait else None
            )
    except KeyboardInterrupt:
        reporter.say(f"job {known.job_id} goes on: the same command follows it, scancel {known.job_id} ends it")
        return JobResult("", FAILED)
    said = end_text(end, known.job_id)
    if said:
        reporter.say(said, tone="warning")
    return _result(folder, known.job_id, FAILED if end.code is None else end.code)


def _result(folder: JobFolder, job_id: int, code: int) -> JobResult:
    try:
        return JobResult(folder.result(job_id).read_text(encoding="utf-8", errors="replace"), code)
    except OSError:
        return JobResult("", code)


class _Told:
    """Shows what the follower sees as if the command ran here."""

    def __init__(self, reporter: Reporter, listener: Listener) -> None:
        self._reporter, self._listener = reporter, listener
        self._shown = ""

    def say(self, line: str) -> None:
        """Shows a line."""
        self._reporter.say(line)

    def live(self, data: dict[str, object]) -> None:
        """Shows how far the run is that is being made."""
        spec = decode(RunSpec, data["spec"])
        place = int(str(data["index"])), int(str(data["total"])), spec
        if data["outcome"] is not None:
            self._listener.ended(*place, decode(Outcome, data["outcome"]))
            return
        if self._shown != spec.name:
            self._shown = spec.name
            self._listener.started(*place)
        pulses = data["pulses"] if isinstance(data["pulses"], list) else []
        self._listener.pulses(spec, tuple(decode(Pulse, one) for one in pulses), float(str(data["seconds"])))


class LiveNotes:
    """A reporter inside a job: it passes everything on, and notes beside it how far the runs are."""

    def __init__(self, reporter: Reporter, path: Path) -> None:
        self.say, self.refuse = reporter.say, reporter.refuse
        self._reporter, self._path = reporter, path

    @contextmanager
    def runs(self, job: Job) -> Iterator[Listener]:
        """Gives the listener of the reporter behind it, which is also noted."""
        with self._reporter.runs(job) as listener:
            yield _Noted(listener, self._path)


class _Noted:
    def __init__(self, listener: Listener, path: Path) -> None:
        self._listener, self._path = listener, path
        self._place: dict[str, tuple[int, int]] = {}

    def started(self, index: int, total: int, spec: RunSpec) -> None:
        self._place[spec.name] = index, total
        self._listener.started(index, total, spec)
        self._note(spec)

    def pulses(self, spec: RunSpec, pulses: tuple[Pulse, ...], seconds: float) -> None:
        self._listener.pulses(spec, pulses, seconds)
        self._note(spec, pulses, seconds)

    def ended(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        self._listener.ended(index, total, spec, outcome)
        self._note(spec, outcome=outcome)

    def skipped(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        self._listener.skipped(index, total, spec, outcome)

    def _note(
        self, spec: RunSpec, pulses: Sequence[Pulse] = (), seconds: float = 0.0, outcome: Outcome | None = None
    ) -> None:
        index, total = self._place.get(spec.name, (0, 1))
        data = {
            "index": index, "total": total, "spec": encode(spec), "pulses": [encode(one) for one in pulses],
            "seconds": seconds, "outcome": encode(outcome) if outcome else None,
        }  # fmt: skip
        aside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        aside.write_text(json.dumps(data), encoding="utf-8")
        aside.replace(self._path)
