"""Submits a job and follows it from outside: why it waits, how far its command is, and how it ended."""

import getpass
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from scalewise.errors import BadRequest
from scalewise.launch.slurm import queue
from scalewise.launch.slurm.job import JobRequest, job_script
from scalewise.launch.slurm.losses import avoid_hosts, avoided_hosts, note_losses
from scalewise.launch.slurm.queue import JobState, SlurmSilent
from scalewise.records.codec import read_json_or_none, write_json
from scalewise.records.submission import JobFolder, Submission
from scalewise.units import listed

CODES = (0, 1, 2, 3)  # with which a command ends by itself
ABSENT_SECONDS = 300.0  # from here on a job that the controller does not know is over
SHARED_SECONDS = 60.0  # in which a job that runs must have shown that it shares the folder
_ASK_SECONDS = 2.0
_LOOK_SECONDS = 0.25
_LEFT_SECONDS = 10.0  # for the last files of a job that Slurm says is over

EndKind = Literal["ended", "out_of_time", "cancelled", "timed_out", "node_failed", "out_of_memory", "failed", "gone"]


@dataclass(frozen=True)
class JobEnd:
    """The end of a job: the exit code of its command, or why the command did not come to its end."""

    kind: EndKind
    code: int | None = None
    text: str = ""


class Watcher(Protocol):
    """The interface of whoever is told what a follower sees."""

    def say(self, line: str) -> None:
        """Takes a line about the job, or one that the command in it has said."""

    def live(self, data: dict[str, object]) -> None:
        """Takes how far the command is."""


def known_submission(folder: JobFolder) -> Submission | None:
    """The newest job of the command; None if there is none."""
    return read_json_or_none(folder.submission, Submission)


def submit(request: JobRequest, folder: JobFolder, words: tuple[str, ...]) -> Submission:
    """Submits the job and keeps its number; one that was submitted before but could not be noted is found again."""
    before = known_submission(folder)
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.script.write_text(job_script(request, folder), encoding="utf-8")
    queued = queue.queued_ids(queue.ask("squeue", "-h", "-o", "%A", "--me", f"--name={request.name}"))
    left = [one for one in queued if command_code(folder, one) is None]
    if left:
        job_id, cluster = left[-1], ""
    else:
        job_id, cluster = queue.submitted_id(queue.ask("sbatch", "--parsable", str(folder.script)))
    attempts, losses = (before.attempts + 1, before.losses) if before else (1, ())
    submission = Submission(job_id, cluster, getpass.getuser(), time.time(), words, attempts, losses)
    write_json(folder.submission, submission)
    return submission


def still_there(job_id: int) -> bool:
    """Tells whether the job waits or runs."""
    state = queue.show_job(job_id)
    return state is not None and not state.ended


def command_code(folder: JobFolder, job_id: int) -> int | None:
    """The exit code of the command, if it came to its end in that job."""
    end = _last_words(folder, job_id)
    return end[0] if end else None


def _last_words(folder: JobFolder, job_id: int) -> tuple[int, int] | None:
    """The exit code of the command, and how often the job had been requeued by then."""
    try:
        code, _, restarts = folder.ended(job_id).read_text().partition(" ")
        return int(code), int(restarts or 0)
    except (OSError, ValueError):
        return None


def follow_job(folder: JobFolder, job_id: int, watcher: Watcher, wait_seconds: float | None = None) -> JobEnd:
    """Stays until the job is over; raises a BadRequest if it can never run, or shows that it shares no folder."""
    return _Follower(folder, job_id, watcher, wait_seconds).stay()


@dataclass
class _Follower:
    folder: JobFolder
    job_id: int
    watcher: Watcher
    wait_seconds: float | None
    _said: str = ""
    _offset: int = 0
    _live: str = ""
    _began: float = field(default_factory=time.monotonic)
    _seen: float = field(default_factory=time.monotonic)  # when the controller last knew the job
    _running_since: float | None = None
    _silent: bool = False
    _restarts: int = 0

    def stay(self) -> JobEnd:
        asked = 0.0
        while True:
            self._pass_on()
            end = _last_words(self.folder, self.job_id)
            if end is not None and not self._runs_again(end[1]):
                self._pass_on()
                out = self.folder.out_of_time(self.job_id).exists()
                return JobEnd("out_of_time" if out else "ended", end[0])
            if time.monotonic() - asked >= _ASK_SECONDS:
                asked = time.monotonic()
                seen = self._ask()
                if seen is not None:
                    return seen
            time.sleep(_LOOK_SECONDS)

    def _runs_again(self, restarts: int) -> bool:
        """Tells whether the job was requeued after its command had ended, as when its host fails."""
        try:
            state = queue.show_job(self.job_id)
        except SlurmSilent:
            return False
        return state is not None and (state.waits or state.restarts > restarts)

    def _ask(self) -> JobEnd | None:
        """Asks the controller; returns the end of a job that is over without a word of its own."""
        now = time.monotonic()
        try:
            state = queue.show_job(self.job_id)
        except SlurmSilent as silence:
            if not self._silent:
                self.watcher.say(f"Slurm does not answer ({silence}); waiting for it")
            self._silent = True
            return None
        self._silent = False
        if state is None:
            return self._accounted() or (JobEnd("gone") if now - self._seen > ABSENT_SECONDS else None)
        self._seen = now
        if state.waits:
            self._tell_waiting(state)
        elif state.ended:
            return self._end_of(state)
        elif state.state == "RUNNING":
            self._check_shared(state)
        return None

    def _accounted(self) -> JobEnd | None:
        """The end of a job that the controller has forgotten, where accounting knows it."""
        state = queue.accounted_job(self.job_id)
        return self._end_of(state) if state is not None and state.ended else None

    def _lose_hosts(self, state: JobState) -> None:
        """Tells which hosts of the job have failed; one that has failed twice is left out of what follows."""
        lost = note_losses(self.folder, self._last_hosts())
        if lost:
            self.watcher.say(f"{listed(lost)} failed while job {self.job_id} ran there")
        known = known_submission(self.folder)
        avoided = avoided_hosts(known.losses if known else ())
        often = [one for one in avoided if one in lost]
        if often and not state.waits:
            self.watcher.say(f"{listed(often)} failed more than once: the next job leaves it out if others are enough")
        elif often and avoid_hosts(state, avoided):
            self.watcher.say(f"{listed(often)} failed more than once: job {self.job_id} goes on without it")

    def _last_hosts(self) -> str:
        """The hosts on which the job began last, by its own word: it may have run between two questions."""
        try:
            return self.folder.began(self.job_id).read_text().strip()
        except OSError:
            return ""

    def _tell_waiting(self, state: JobState) -> None:
        if state.hopeless:
            queue.ask("scancel", str(self.job_id))
            never = f"Job {self.job_id} can never run: {state.reason_text}. It was cancelled."
            raise BadRequest(never, "Ask for what the cluster has.")
        if state.restarts > self._restarts:
            self._restarts = state.restarts
            again = "was preempted or requeued and waits to run again; finished runs are kept"
            self.watcher.say(f"job {self.job_id} {again}")
            self._lose_hosts(state)
        self._running_since = None
        reason = f": {state.reason_text}" if state.reason_text else ""
        start = f"; expected to start at {state.start.replace('T', ' ')}" if state.start else ""
        self._say(f"job {self.job_id} waits in the queue{reason}{start}")
        if self.wait_seconds is not None and time.monotonic() - self._began > self.wait_seconds:
            raise BadRequest(
                f"Job {self.job_id} has not begun within {self.wait_seconds:.0f} s (wait).",
                f"It stays in the queue: the same command follows it, scancel {self.job_id} ends it.",
            )

    def _check_shared(self, state: JobState) -> None:
        now = time.monotonic()
        self._running_since = self._running_since or now
        self._say(f"job {self.job_id} runs on {state.node_list}")
        if not self.folder.began(self.job_id).exists() and now - self._running_since > SHARED_SECONDS:
            queue.ask("scancel", str(self.job_id))
            raise BadRequest(
                f"Job {self.job_id} runs on {state.node_list}, and {self.folder.path} shows nothing of it. The job was "
                "cancelled: the folder is not shared.",
                "Use --out on a file system that all hosts share.",
            )

    def _end_of(self, state: JobState) -> JobEnd | None:
        """The end of a job whose command has left no exit code; its last files may come a little later."""
        limit = time.monotonic() + _LEFT_SECONDS
        while (
            time.monotonic() < limit and state.state == "COMPLETED" and command_code(self.folder, self.job_id) is None
        ):
            time.sleep(_LOOK_SECONDS)
        if command_code(self.folder, self.job_id) is not None:
            return None
        self._pass_on()
        if state.state == "NODE_FAIL":
            self._lose_hosts(state)
        if not self.folder.began(self.job_id).exists() and state.state not in ("CANCELLED", "NODE_FAIL"):
            raise BadRequest(
                f"Job {self.job_id} ended on {state.node_list or 'its host'} before its first word: it does not see "
                f"{self.folder.path}.",
                "Use --out on a file system that all hosts share.",
            )
        kinds: dict[str, EndKind] = {
            "CANCELLED": "cancelled", "TIMEOUT": "timed_out", "DEADLINE": "timed_out", "NODE_FAIL": "node_failed",
            "BOOT_FAIL": "node_failed", "OUT_OF_MEMORY": "out_of_memory",
        }  # fmt: skip
        return JobEnd(kinds.get(state.state, "failed"), None, _last_of(self.folder.log(self.job_id)) or state.exit_code)

    def _say(self, line: str) -> None:
        if line != self._said:
            self._said = line
            self.watcher.say(line)

    def _pass_on(self) -> None:
        """Passes on what the command has said since, and how far it is."""
        for line in self._new_lines():
            self.watcher.say(line)
        try:
            text = self.folder.live(self.job_id).read_text(encoding="utf-8")
            if text != self._live:
                self._live = text
                self.watcher.live(json.loads(text))
        except (OSError, ValueError):
            return

    def _new_lines(self) -> Iterator[str]:
        try:
            with open(self.folder.narration(self.job_id), "rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        yield from whole.decode("utf-8", errors="replace").splitlines()


def end_text(end: JobEnd, job_id: int) -> str:
    """The end of a job in words; empty if its command came to its own end."""
    again = "what is finished is kept, and the same command makes the rest in a new job"
    if end.kind == "ended" and end.code not in CODES:
        return f"The command in job {job_id} was ended by signal {(end.code or 128) - 128}: {again}."
    texts = {
        "out_of_time": f"The time of job {job_id} was nearly over: {again}.",
        "cancelled": f"Job {job_id} was cancelled{_by(end.text)}: {again}.",
        "timed_out": f"The time of job {job_id} was over: {again}.",
        "node_failed": f"A host of job {job_id} failed: {again}.",
        "out_of_memory": f"Job {job_id} used more memory than it was given: {again}; ask for more with --slurm mem=...",
        "failed": f"Job {job_id} failed ({end.text}): {again}.",
        "gone": f"Slurm no longer knows job {job_id}, and it left no result: {again}.",
    }
    return texts.get(end.kind, "")


def _by(text: str) -> str:
    return f" ({text})" if text else ""


def _last_of(log: Path) -> str:
    try:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return ""
    return lines[-1].strip() if lines else ""


def inside() -> bool:
    """Tells whether this process runs in an allocation."""
    return os.environ.get("SLURM_JOB_ID", "").isdecimal() and bool(os.environ.get("SLURM_JOB_NODELIST"))
