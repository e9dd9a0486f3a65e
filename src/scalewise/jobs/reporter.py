"""The interface through which a job tells how it goes. A job prints nothing itself: without a reporter it is silent."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal, Protocol

from scalewise.errors import BadRequest
from scalewise.launch.campaign import Listener
from scalewise.records.outcome import Outcome
from scalewise.records.pulse import Pulse
from scalewise.records.spec import RunSpec

Tone = Literal["plain", "heading", "warning"]
Job = Literal["measure", "diagnose", "rehearse", "compare", "follow"]  # follow: lines of its own tell how runs end


class Reporter(Protocol):
    """The receiver of a job's messages while it works; its result is what the job returns."""

    def say(self, text: str, tone: Tone = "plain") -> None:
        """Takes one line about what happens now."""

    def refuse(self, error: BadRequest) -> None:
        """Takes the error of a part of the job that cannot be done; the rest goes on."""

    def runs(self, job: Job) -> AbstractContextManager[Listener]:
        """Returns the listener for the progress of the runs that this job is about to make."""


class SilentListener:
    """A listener that ignores the progress of runs."""

    def started(self, index: int, total: int, spec: RunSpec) -> None:
        """Called when a run begins."""

    def pulses(self, spec: RunSpec, pulses: tuple[Pulse, ...], seconds: float) -> None:
        """Called with the signs of life of a run's ranks."""

    def ended(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """Called when a run has ended."""

    def skipped(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """Called for a run that had been made before."""


@dataclass(frozen=True)
class PartOfAll:
    """A listener that counts the runs of one campaign among all runs of a command."""

    inner: Listener
    before: int  # runs that were made already
    after: int  # runs that follow at most

    def started(self, index: int, total: int, spec: RunSpec) -> None:
        """Called when a run begins."""
        self.inner.started(*self._counted(index, total), spec)

    def pulses(self, spec: RunSpec, pulses: tuple[Pulse, ...], seconds: float) -> None:
        """Called with the signs of life of a run's ranks."""
        self.inner.pulses(spec, pulses, seconds)

    def ended(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """Called when a run has ended."""
        self.inner.ended(*self._counted(index, total), spec, outcome)

    def skipped(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """Called for a run that had been made before."""
        self.inner.skipped(*self._counted(index, total), spec, outcome)

    def _counted(self, index: int, total: int) -> tuple[int, int]:
        return self.before + index, self.before + total + self.after


class Silent:
    """A reporter that ignores all messages."""

    def say(self, text: str, tone: Tone = "plain") -> None:
        """Ignores the line."""

    def refuse(self, error: BadRequest) -> None:
        """Ignores the error."""

    def runs(self, job: Job) -> AbstractContextManager[Listener]:
        """Returns a listener that ignores everything, too."""
        return nullcontext(SilentListener())


class Lines(SilentListener):
    """A reporter that writes what happens line by line: `Lines(print)`."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def say(self, text: str, tone: Tone = "plain") -> None:
        """Writes one line."""
        self._write(text)

    def refuse(self, error: BadRequest) -> None:
        """Writes the error's sentence and what to do."""
        self._write(" ".join(filter(None, (error.sentence, error.hint))))

    def runs(self, job: Job) -> AbstractContextManager[Listener]:
        """Returns this reporter, which writes a line for each run that has ended."""
        return nullcontext(self)

    def ended(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """Writes how the run ended, and after how long."""
        self._write(f"{spec.name}: {outcome.sentence}, {outcome.wall_seconds:.1f} s")

    def skipped(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """Writes that the run was made before, with its outcome."""
        self._write(f"{spec.name}: made before, {outcome.sentence}")


SILENT = Silent()
