"""What a launcher is: it starts the ranks of one run and says of them what supervision has to know.

Supervision knows these protocols and the run's folder, where ranks leave their records and logs. It shares no memory
with the ranks, sends no signal, reads no /proc and has no clock of its own: all of that is the launcher's matter, which
may start ranks on this host, on another, or only in a test.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from scalewise.launch.verdict import Exit, RankView
from scalewise.records.folder import RunFolder
from scalewise.records.pulse import Pulse
from scalewise.records.spec import RunSpec
from scalewise.records.world import World


class LaunchFailed(Exception):
    """The ranks cannot be started, or what has started them is gone; says why and what to do."""

    def __init__(self, sentence: str, hint: str, world: World | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint
        self.world = world  # what had become of the script's files by then


class RankProcesses(Protocol):
    """The ranks of one run, from their start until nothing of them is left."""

    @property
    def exits(self) -> Mapping[int, Exit]:
        """The ranks that have ended by themselves."""

    @property
    def all_started(self) -> bool:
        """Whether every rank is known to have begun."""

    @property
    def over(self) -> bool:
        """Tells whether nothing more will happen."""

    @property
    def seconds(self) -> float:
        """Since the ranks were to start: the clock of everything that is said about them."""

    @property
    def seconds_before(self) -> float:
        """That passed from the wish for this run to the start of that clock."""

    @property
    def memory_kills(self) -> int:
        """Processes that were killed for want of memory where the ranks are, since they started."""

    def wait(self, seconds: float) -> None:
        """Waits so long, or until there is news of a start or an end, and takes it in."""

    def pause(self, seconds: float) -> None:
        """Waits so long in any case: ranks have something to write."""

    def pulses(self) -> tuple[Pulse, ...]:
        """The last sign of life of each rank, for who wants to watch."""

    def views(self) -> tuple[RankView, ...]:
        """Each rank now: there or gone, and when it last moved by this clock."""

    def sample(self) -> None:
        """Notes how the machine is doing beside the ranks."""

    def stacks(self, ranks: Sequence[int]) -> dict[int, tuple[str, ...]]:
        """Where these ranks stand, innermost frame first; what cannot be asked has none."""

    def end(self) -> None:
        """Ends what is left of the ranks and all they have started, and puts their logs in their places."""

    def start_problem(self) -> tuple[str, str]:
        """Why no rank was ever started, and what to do; two empty texts where some were."""

    def close(self) -> World | None:
        """Gives back what the run was given; what it did to its files. Called once, however the run has ended."""


class Launcher(Protocol):
    """Starts runs."""

    def start(self, spec: RunSpec, folder: RunFolder) -> RankProcesses:
        """Starts the ranks of a run whose `spec.json` is in its folder; raises `LaunchFailed` where that cannot be."""
