"""Tells a terminal how a job goes: lines of narration, and the progress of its runs."""

from scalewise.console.doctor_progress import DoctorProgress
from scalewise.console.output import Output
from scalewise.console.progress import Progress
from scalewise.console.rehearse_progress import RehearseProgress
from scalewise.errors import BadRequest
from scalewise.jobs.reporter import Job, Tone

_STYLES = {"plain": "", "heading": "bold", "warning": "yellow"}
_PROGRESS = {"measure": Progress, "diagnose": DoctorProgress, "rehearse": RehearseProgress}


class TerminalReporter:
    """A `Reporter` that writes to the narration of an `Output`."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def say(self, text: str, tone: Tone = "plain") -> None:
        """One line."""
        self._output.say(text, style=_STYLES[tone])

    def refuse(self, error: BadRequest) -> None:
        """Shown as an error that ends a verb is, but the verb goes on."""
        self._output.refuse(error)

    def runs(self, job: Job) -> Progress:
        """Lines in the words of the job."""
        return _PROGRESS[job](self._output)
