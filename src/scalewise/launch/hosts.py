"""The planner's side of a run on several hosts: one process orders, reads what the hosts report, and judges it all."""

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence

from scalewise.launch.host_part import LOST_SECONDS, REPORT_SECONDS
from scalewise.launch.launcher import HostLost, LaunchFailed
from scalewise.launch.verdict import Exit, RankView
from scalewise.records.folder import RunFolder
from scalewise.records.host_notes import HostedRank, HostOrder, HostReport, leave, read_report
from scalewise.records.outcome import World
from scalewise.records.pulse import Pulse
from scalewise.records.spec import RunSpec

BEGIN_SECONDS = 60.0  # from the request until a host must have reported
_STACK_SECONDS = 5.0
_END_SECONDS = 20.0
_LOOK_SECONDS = 0.1


class HostsRanks(ABC):
    """The ranks of one run on several hosts, as their hosts report them."""

    def __init__(self, spec: RunSpec, folder: RunFolder) -> None:
        assert spec.nodes is not None
        self.spec, self.folder = spec, folder
        self.attempt = uuid.uuid4().hex
        self.exits: dict[int, Exit] = {}
        self.seconds_before = 0.0
        self._reports: dict[int, HostReport] = {}
        self._began = time.monotonic()
        self._heard: dict[int, float] = {}  # by host: when its last report came, in seconds of this run
        self._order = HostOrder(self.attempt, 0)
        self._ordered_seconds = 0.0
        self._ended = False
        leave(folder.order, self._order)

    @abstractmethod
    def check(self) -> None:
        """Raises `LaunchFailed` if what starts the parts of the hosts has ended, or says that a host is lost."""

    @property
    def count(self) -> int:
        """The number of hosts."""
        assert self.spec.nodes is not None
        return self.spec.nodes.count

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of the hosts, as far as they have reported."""
        return tuple(report.host for _, report in sorted(self._reports.items()))

    @property
    def all_started(self) -> bool:
        """True if every host says so."""
        return len(self._reports) == self.count and all(one.all_started for one in self._reports.values())

    @property
    def over(self) -> bool:
        """True if nothing more will happen on any host."""
        return len(self._reports) == self.count and all(one.stage == "over" for one in self._reports.values())

    @property
    def seconds(self) -> float:
        """The seconds since the order was given."""
        return time.monotonic() - self._began

    @property
    def memory_kills(self) -> int:
        """The number of processes killed for lack of memory on all hosts."""
        return sum(one.memory_kills for one in self._reports.values())

    def wait(self, seconds: float) -> None:
        """Waits until a host has news or the time is over."""
        end = time.monotonic() + seconds
        while True:
            self._order_again()
            news = self._read()
            self.check()
            self._miss()
            left = end - time.monotonic()
            if news or left <= 0:
                return
            time.sleep(min(_LOOK_SECONDS, left))

    def pause(self, seconds: float) -> None:
        """Waits, and lets the hosts know that the planner lives."""
        time.sleep(seconds)
        self._order_again()

    def pulses(self) -> tuple[Pulse, ...]:
        """The signs of life, as if all ranks had the planner's clock."""
        now = time.monotonic_ns()
        found = []
        for one, _ in self._states():
            moved_ns = 0 if one.still_seconds is None else now - int(one.still_seconds * 1e9)
            found.append(Pulse(moved_ns, one.steps, one.state, one.syncs, one.pid))
        return tuple(found)

    def views(self) -> tuple[RankView, ...]:
        """The state of every rank by the planner's clock; ranks of a host that has not reported yet are starting."""
        found = {one.rank: _view(one, heard, self.exits.get(one.rank)) for one, heard in self._states()}
        return tuple(found.get(rank) or RankView(rank) for rank in range(self.spec.world_size))

    def sample(self) -> None:  # noqa: B027
        """Does nothing: each host samples itself."""

    def stacks(self, ranks: Sequence[int]) -> dict[int, tuple[str, ...]]:
        """Lets every host ask its own ranks."""
        asked = self._order.stacks + 1
        self._give(HostOrder(self.attempt, self._order.number + 1, asked))
        end = time.monotonic() + _STACK_SECONDS
        while time.monotonic() < end and any(one.stacks_asked < asked for one in self._reports.values()):
            time.sleep(_LOOK_SECONDS)
            self._read()
        found = {int(rank): stack for one in self._reports.values() for rank, stack in one.stacks.items()}
        return {rank: found.get(rank, ()) for rank in ranks}

    def end(self) -> None:
        """Orders the end and waits until every host that can be heard of has nothing left."""
        self._ended = True
        self._give(HostOrder(self.attempt, self._order.number + 1, self._order.stacks, end=True))
        end = time.monotonic() + _END_SECONDS
        while time.monotonic() < end and not self._all_closed():
            time.sleep(_LOOK_SECONDS)
            self._read()

    def start_problem(self) -> tuple[str, str]:
        """Returns two empty texts: a host that could not start anything ends the wait with `LaunchFailed`."""
        return "", ""

    def close(self) -> World | None:
        """Ends what is left and returns what the first host says of the files."""
        if not self._ended:
            self.end()
        return self._reports[0].world if 0 in self._reports else None

    def _all_closed(self) -> bool:
        """Tells whether every host that took part has nothing left; one that is lost cannot say so."""
        silent = self.seconds - LOST_SECONDS
        return all(
            one.stage in ("closed", "refused", "left") or self._heard[node] < silent
            for node, one in self._reports.items()
        )

    def _states(self) -> list[tuple[HostedRank, float]]:
        return [(state, self._heard[node]) for node, one in sorted(self._reports.items()) for state in one.ranks]

    def _order_again(self) -> None:
        if self.seconds - self._ordered_seconds >= REPORT_SECONDS:
            self._give(HostOrder(self.attempt, self._order.number + 1, self._order.stacks, self._order.end))

    def _give(self, order: HostOrder) -> None:
        self._order, self._ordered_seconds = order, self.seconds
        leave(self.folder.order, order)

    def _read(self) -> bool:
        """Takes in what the hosts have written; tells whether a rank has started or ended."""
        news = False
        for node in range(self.count):
            report, last = read_report(self.folder.report(node)), self._reports.get(node)
            if report is None or report.attempt != self.attempt or (last and report.number <= last.number):
                continue
            self._reports[node], self._heard[node] = report, self.seconds
            news = news or last is None or (last.stage, last.all_started) != (report.stage, report.all_started)
            for state in report.ranks:
                if state.ended_seconds is not None and state.rank not in self.exits and not self._ended:
                    at_seconds = self.seconds - state.ended_seconds
                    self.exits[state.rank] = Exit(state.exit_code, state.signal, at_seconds, state.secondary)
                    news = True
        return news

    def _miss(self) -> None:
        """Raises `LaunchFailed` if a host could not begin, or has not been heard of for too long."""
        for node, one in sorted(self._reports.items()):
            if one.stage == "refused":
                raise LaunchFailed(f"{one.host}: {one.sentence}", one.hint, one.world)
            if one.stage == "left":
                raise HostLost(f"host {node} ({one.host}) was interrupted", "start it again there")
            if self.seconds - self._heard[node] > LOST_SECONDS:
                raise HostLost(
                    f"host {node} ({one.host}) has not been heard of for {LOST_SECONDS:.0f} s",
                    "the run is made again by the same command",
                )
        missing = [node for node in range(self.count) if node not in self._reports]
        if missing and self.seconds > BEGIN_SECONDS:
            raise LaunchFailed(
                f"host {missing[0]} has not begun within {BEGIN_SECONDS:.0f} s",
                f"does it see {self.folder.path.resolve()}? All hosts must share the folder of the runs (--out)",
            )


def _view(state: HostedRank, heard_seconds: float, end: Exit | None) -> RankView:
    """The rank by the planner's clock; what its host said is as old as its last report."""
    moved = None if state.still_seconds is None else heard_seconds - state.still_seconds
    return RankView(state.rank, end, moved, state.state, state.steps, state.syncs, state.pid, state.queued_seconds)
