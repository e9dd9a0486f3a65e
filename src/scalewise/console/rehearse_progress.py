"""Progress of rehearsals and of the runs that check them."""

from scalewise.console.progress import Progress, failure_lines
from scalewise.records.outcome import Outcome
from scalewise.records.spec import RunSpec


class RehearseProgress(Progress):
    """Listens to the campaign as the ordinary progress does, but says whom a process stood for."""

    def tell_end(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """What was rehearsed or measured, or why not."""
        what = _what(spec)
        if outcome.measured:
            self.output.say(f"{what}: {outcome.sentence}, {outcome.wall_seconds:.1f} s")
            return
        self.output.say(f"{what}: {outcome.sentence}", style="red")
        if spec.rehearse is None:
            for line in failure_lines(outcome):
                self.output.say(f"    {line}")


def _what(spec: RunSpec) -> str:
    if spec.rehearse is None:
        return f"measured {spec.ranks} rank{'s' if spec.ranks > 1 else ''}"
    first, last, size = spec.rehearse.rank, spec.rehearse.rank + spec.ranks - 1, spec.rehearse.world_size
    who = f"rank {first}" if first == last else f"ranks {first} to {last}"
    how = ", inspected" if spec.inspect else ", small buckets" if spec.remedies else ""
    return f"rehearsed {who} of {size}{how}"
