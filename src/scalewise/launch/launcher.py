"""The interface of a launcher: it starts the ranks of one run and tells supervision what it needs to know of them.

Supervision knows these protocols and the run's folder, where ranks leave their records and logs. It shares no memory
with the ranks, sends no signals, does not read /proc and has no clock of its own: the launcher does all of that, and
may start ranks on this host, on another, or only in a test.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from scalewise.launch.verdict import Exit, RankView
from scalewise.records.folder import RunFolder
from scalewise.records.outcome import World
from scalewise.records.pulse import Pulse
from scalewise.records.spec import RunSpec


class LaunchFailed(Exception):
    """The error that ranks cannot be started, or that what has started them is gone; it says why and what to do."""

    def __init__(self, sentence: str, hint: str, world: World | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint
        self.world = world  # what the run had done to the script's files by then


class HostLost(LaunchFailed):
    """The error for a host that was lost while its ranks ran: the run says nothing and is made again."""


class HostOutOfMemory(LaunchFailed):
    """The error for ranks that were ended because they used more memory than their host or job gave them."""


class RankProcesses(Protocol):
    """The ranks of one run, from their start until nothing of them is left."""

    @property
    def exits(self) -> Mapping[int, Exit]:
        """The ranks that have ended by themselves."""

    @property
    def all_started(self) -> bool:
        """True if every rank is known to have begun."""

    @property
    def over(self) -> bool:
        """True if nothing more will happen."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of the hosts on which the ranks lie, if the launcher chose them; empty: on this one."""

    @property
    def seconds(self) -> float:
        """The seconds since the ranks were to start, the clock for everything that is said about them."""

    @property
    def seconds_before(self) -> float:
        """The seconds between the request for this run and the start of the clock of `seconds`."""

    @property
    def memory_kills(self) -> int:
        """The number of processes killed for lack of memory, on the ranks' host, since the ranks started."""

    def wait(self, seconds: float) -> None:
        """Waits for that many seconds or until a rank starts or ends, and takes note of it."""

    def pause(self, seconds: float) -> None:
        """Waits for the whole time, so that ranks can finish writing."""

    def pulses(self) -> tuple[Pulse, ...]:
        """The last sign of life of each rank, for listeners."""

    def views(self) -> tuple[RankView, ...]:
        """The state of each rank: running or ended, and when it last moved by this clock."""

    def sample(self) -> None:
        """Records a sample of how the machine is used beside the ranks."""

    def stacks(self, ranks: Sequence[int]) -> dict[int, tuple[str, ...]]:
        """The stacks of these ranks, innermost frame first; empty for a rank that cannot be asked."""

    def end(self) -> None:
        """Ends what is left of the ranks and all they have started, and puts their logs in their places."""

    def start_problem(self) -> tuple[str, str]:
        """The reason why no rank was ever started, and what to do; two empty texts if some were."""

    def close(self) -> World | None:
        """Releases what the run was given and returns what it did to its files; called once, however the run ended."""


class Launcher(Protocol):
    """The interface of what starts runs."""

    def start(self, spec: RunSpec, folder: RunFolder) -> RankProcesses:
        """Starts the ranks of a run whose `spec.json` is in its folder; raises `LaunchFailed` where that cannot be."""
