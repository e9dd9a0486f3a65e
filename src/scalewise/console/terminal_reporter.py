"""Tells a terminal how a job goes: lines of narration, and which run is made, how far each rank is and what it does."""

import time

from rich.console import Group
from rich.live import Live
from rich.text import Text

from scalewise.console.output import Output
from scalewise.errors import BadRequest
from scalewise.jobs.reporter import Job, Tone
from scalewise.predict.prediction_text import stood_for
from scalewise.records.outcome import Outcome
from scalewise.records.pulse import Pulse
from scalewise.records.spec import RunSpec
from scalewise.units import counted

MOST_RANKS_SHOWN = 8
_STYLES = {"plain": "", "heading": "bold", "warning": "yellow"}


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

    def runs(self, job: Job) -> "Progress":
        """Lines in the words of the job."""
        return _PROGRESS[job](self._output)


class Progress:
    """A listener of the campaign: it redraws one block on a terminal; elsewhere it prints a line when a run ends."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self._began = time.monotonic()
        self._made = 0
        self._index, self._total = 0, 0
        self._running: dict[str, list[Text]] = {}  # runs that take turns are here together
        self._live: Live | None = None
        if output.narration.is_terminal and not output.quiet:
            self._live = Live(console=output.narration, auto_refresh=False, transient=True)

    def __enter__(self) -> "Progress":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def started(self, index: int, total: int, spec: RunSpec) -> None:
        """Notes that a run begins."""
        self._index, self._total = index, total
        self.pulses(spec, (), 0.0)

    def pulses(self, spec: RunSpec, pulses: tuple[Pulse, ...], seconds: float) -> None:
        """Redraws the block with the ranks' latest signs of life."""
        if self._live is not None:
            name = Text.assemble((spec.name, "bold"), f"  {seconds:.0f} s")
            self._running[spec.name] = [name, *self._rank_lines(pulses, spec.rehearsed.rank if spec.rehearsed else 0)]
            head = Text(f"run {self._index + 1} of {self._total}{self._left()}")
            self._live.update(Group(head, *(line for lines in self._running.values() for line in lines)), refresh=True)

    def ended(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """Notes that a run has ended, in whatever way."""
        self._made += 1
        self._running.pop(spec.name, None)
        self.tell_end(index, total, spec, outcome)

    def tell_end(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """Prints one line for a run that can be used, and more for one that cannot."""
        if outcome.measured:
            steps = f"{outcome.wall_seconds:.1f} s"
            self.output.say(f"[{index + 1}/{total}] {spec.name}: {outcome.kind.replace('_', ' ')}, {steps}")
            return
        self.output.say(f"[{index + 1}/{total}] {spec.name}: {outcome.sentence}", style="red")
        for line in failure_lines(outcome):
            self.output.say(f"    {line}")

    def skipped(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """Prints that a run was made before; a failure counts as a result too, which only `--again` replaces."""
        line = f"[{index + 1}/{total}] {spec.name}: made before ({outcome.kind.replace('_', ' ')})"
        if outcome.measured:
            self.output.say(line)
        else:
            self.output.say(f"{line}: {outcome.sentence}", style="red")
            self.output.say("    to make it anew, add: --again")

    def _left(self) -> str:
        """A rough estimate of the time left; empty until a first run has ended."""
        if not self._made:
            return ""
        left = (time.monotonic() - self._began) / self._made * (self._total - self._index)
        return f"  about {left / 60:.0f} min left" if left >= 90 else f"  about {left:.0f} s left"

    def _rank_lines(self, pulses: tuple[Pulse, ...], first: int) -> list[Text]:
        lines = [
            Text(f"  rank {rank}  step {pulse.steps}  {pulse.state}")
            for rank, pulse in enumerate(pulses[:MOST_RANKS_SHOWN], first)
        ]
        if len(pulses) > MOST_RANKS_SHOWN:
            lines.append(Text(f"  and {len(pulses) - MOST_RANKS_SHOWN} ranks more"))
        return lines


class DoctorProgress(Progress):
    """Progress of a campaign of the doctor, which tells how a run ended in the doctor's words."""

    def tell_end(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """Prints that the run was observed or replayed, or the reason why it was not."""
        first = spec.examined is not None and not spec.shows_gradients
        what = "observed" if first else f"replay {index + 1} of {total}"
        if outcome.measured:
            self.output.say(f"{what}: {outcome.sentence}, {outcome.wall_seconds:.1f} s")
        elif outcome.kind == "timed_out":
            self.output.say(
                f"{what}: ended at its limit of {spec.limit_seconds:g} s; what was seen until then is judged"
            )
        else:
            self.output.say(f"{what}: {outcome.sentence}", style="red")


class RehearseProgress(Progress):
    """Progress of rehearsals, which says which ranks the processes of a run represented."""

    def tell_end(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """Prints what was rehearsed or measured, or the reason why it was not."""
        what = _what(spec)
        if outcome.measured:
            self.output.say(f"{what}: {outcome.sentence}, {outcome.wall_seconds:.1f} s")
            return
        if outcome.kind == "interrupted":  # by the user, who is told at the end what follows from it
            return
        if spec.inspected or spec.changes:  # of our own, not the script's; the advice says what it does not know
            self.output.say(f"{what}: not possible with this script, so the advice goes without it")
            return
        self.output.say(f"{what}: {outcome.sentence}", style="red")
        if spec.rehearsed is None:
            for line in failure_lines(outcome):
                self.output.say(f"    {line}")


def _what(spec: RunSpec) -> str:
    if spec.rehearsed is None:
        return f"measured {counted(spec.ranks, 'rank')}"
    first = next((one for one in spec.changes), None)
    changed = first and ("small buckets" if first.name == "ddp_option" else first.label())
    how = ", inspected" if spec.inspected else f", {changed}" if changed else ""
    return f"rehearsed {stood_for(spec)}{how}"


def failure_lines(outcome: Outcome) -> list[str]:
    """Lines about a failed run: the last output of the rank to blame, where ranks stood, what to do."""
    lines: list[str] = []
    culprit = next((end for end in outcome.ranks if end.rank == outcome.first_failed_rank), None)
    if culprit is not None:
        lines += [f"rank {culprit.rank} | {line}" for line in culprit.last_lines[-8:]]
    for end in outcome.ranks:
        if end.stack:
            lines.append(f"rank {end.rank} stood in ({end.doing}):")
            lines += [f"  {frame}" for frame in end.stack[:4]]
    if outcome.hint:
        lines.append(outcome.hint)
    if outcome.logs:
        lines.append("logs: " + ", ".join(outcome.logs))
    return lines


class CompareProgress(Progress):
    """Progress of runs that are compared: a failure is told in the verdict."""

    def tell_end(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """Prints how a run ended."""
        self.output.say(f"{spec.name}: {outcome.sentence}, {outcome.wall_seconds:.1f} s")


class FollowProgress(Progress):
    """Progress of a campaign in a job, whose own lines tell how its runs end."""

    def tell_end(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """Prints nothing: the job has said it."""


_PROGRESS: dict[Job, type[Progress]] = {
    "measure": Progress,
    "diagnose": DoctorProgress,
    "rehearse": RehearseProgress,
    "compare": CompareProgress,
    "follow": FollowProgress,
}
