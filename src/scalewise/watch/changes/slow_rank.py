"""Makes one rank take `seconds` longer for each of its steps; the others wait for it as they would for a slow GPU."""

from collections.abc import Mapping

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder

NAME = "slow_rank"
CHANGE = Declared(
    settings={"seconds": "seconds", "rank": "rank"},
    example="slow_rank:0.02@0",
    label="slow rank {seconds} on rank {rank}",
    short="slow",
)


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Makes the recorder sleep at the beginning of each step; a process may learn its rank later than this call."""
    seconds, slow = float(settings["seconds"]), int(settings["rank"])

    def told() -> None:
        recorder.slow_seconds = seconds if recorder.rank == slow else 0.0

    recorder.on_rank.append(told)
    told()
