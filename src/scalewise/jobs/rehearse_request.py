"""What is asked of a rehearsal."""

from dataclasses import dataclass
from pathlib import Path

from scalewise.plan.experiment import DeviceChoice
from scalewise.predict.answer import Scaling
from scalewise.predict.link import Link


@dataclass(frozen=True)
class RehearseRequest:
    """A script, numbers of ranks, and a link."""

    script: Path
    args: tuple[str, ...] = ()
    ranks: tuple[int, ...] = (2, 8, 64)  # fewest first
    link: Link | None = None  # None: as measured here
    measured_asked: bool = False  # that the link is to be the measured one even for ranks that do not fit here
    per_node: int | None = None
    scaling: Scaling = "script"
    memory_bytes: float | None = None
    price_per_hour: float | None = None  # of one rank's device
    steps: int | None = None  # of the whole training, for its cost
    check: bool = True
    advice: bool = True
    also: tuple[tuple[str, ...], ...] = ()  # further arguments, for rehearsals with other batches
    device: DeviceChoice = "auto"
    limit_seconds: float = 120.0
    stall_seconds: float = 20.0
    out: Path = Path("runs")
    in_place: bool = False
