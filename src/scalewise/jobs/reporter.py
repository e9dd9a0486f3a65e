"""Whoever wants to hear how a job goes. A job prints nothing itself: without a reporter it is silent."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, Protocol

from scalewise.errors import BadRequest
from scalewise.launch.campaign import Listener
from scalewise.records.outcome import Outcome
from scalewise.records.pulse import Pulse
from scalewise.records.spec import RunSpec

Tone = Literal["plain", "heading", "warning"]
Job = Literal["measure", "diagnose", "rehearse"]


class Reporter(Protocol):
    """Hears what a job does while it does it; the result is what the job returns."""

    def say(self, text: str, tone: Tone = "plain") -> None:
        """One line about what happens now."""

    def refuse(self, error: BadRequest) -> None:
        """A part of the job cannot be done; the rest goes on."""

    def runs(self, job: Job) -> AbstractContextManager[Listener]:
        """Runs are about to be made for that job: who hears of their progress."""


class SilentListener:
    """Hears of runs and says nothing."""

    def started(self, index: int, total: int, spec: RunSpec) -> None:
        """A run begins."""

    def pulses(self, spec: RunSpec, pulses: tuple[Pulse, ...], seconds: float) -> None:
        """Signs of life."""

    def ended(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """It has ended."""

    def skipped(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """Called for a run that had been made before."""


class Silent:
    """Says nothing."""

    def say(self, text: str, tone: Tone = "plain") -> None:
        """Nothing."""

    def refuse(self, error: BadRequest) -> None:
        """Nothing."""

    def runs(self, job: Job) -> AbstractContextManager[Listener]:
        """A listener that is as silent."""
        return nullcontext(SilentListener())


class Lines(SilentListener):
    """Tells what happens line by line: `Lines(print)`."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def say(self, text: str, tone: Tone = "plain") -> None:
        """One line."""
        self._write(text)

    def refuse(self, error: BadRequest) -> None:
        """The sentence and what to do."""
        self._write(" ".join(filter(None, (error.sentence, error.hint))))

    def runs(self, job: Job) -> AbstractContextManager[Listener]:
        """A line for each run that has ended."""
        return nullcontext(self)

    def ended(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """How it ended, and after how long."""
        self._write(f"{spec.name}: {outcome.sentence}, {outcome.wall_seconds:.1f} s")

    def skipped(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """It is not made again."""
        self._write(f"{spec.name}: made before, {outcome.sentence}")


SILENT = Silent()
