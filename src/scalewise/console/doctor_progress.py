"""Progress of the doctor's runs: a run ended at its limit is no failure, and a replay needs few words."""

from scalewise.console.progress import Progress
from scalewise.records.outcome import Outcome
from scalewise.records.spec import RunSpec


class DoctorProgress(Progress):
    """Progress of a campaign of the doctor, which tells how a run ended in the doctor's words."""

    def tell_end(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """Prints that the run was observed or replayed, or the reason why it was not."""
        what = f"replay {index + 1} of {total}" if spec.name.startswith("replay-") else "observed"
        if outcome.measured:
            self.output.say(f"{what}: {outcome.sentence}, {outcome.wall_seconds:.1f} s")
        elif outcome.kind == "timed_out":
            self.output.say(
                f"{what}: ended at its limit of {spec.limit_seconds:g} s; what was seen until then is judged"
            )
        else:
            self.output.say(f"{what}: {outcome.sentence}", style="red")
