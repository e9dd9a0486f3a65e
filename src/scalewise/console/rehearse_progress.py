"""Progress of rehearsals and of the runs that check them."""

from scalewise.console.progress import Progress, failure_lines
from scalewise.predict.prediction_text import stood_for
from scalewise.records.outcome import Outcome
from scalewise.records.spec import RunSpec


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
        return f"measured {spec.ranks} rank{'s' if spec.ranks > 1 else ''}"
    how = ", inspected" if spec.inspected else ", small buckets" if spec.changes else ""
    return f"rehearsed {stood_for(spec)}{how}"
