"""Makes the part of a run that lies on this host: starts torchrun, reports to the planner, obeys it."""

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from scalewise.launch.launcher import Launcher, LaunchFailed, RankProcesses
from scalewise.launch.verdict import RankView
from scalewise.records.codec import BadRecord, read_json, write_json
from scalewise.records.folder import RunFolder
from scalewise.records.host_notes import HostedRank, HostReport, Stage, leave, read_order, read_report
from scalewise.records.machine import MachineFacts
from scalewise.records.spec import RunSpec

# A shared file system may show a file some seconds late, and some cache what they have shown for half a minute.
LOST_SECONDS = float(os.environ.get("SCALEWISE_SILENT_SECONDS", "90"))
REPORT_SECONDS = 1.0
_LOOK_SECONDS = 0.2
_PORT_LOOK_SECONDS = 0.03  # the other hosts' ranks start that much later at the most
_SAMPLE_SECONDS = 0.5
# Whoever ends a rank by SIGTERM may be ending all processes of a job: this one hears of it a moment later.
_SHARED_END_SECONDS = 0.5


@dataclass(frozen=True)
class HostPart:
    """One host's part in one attempt at a run."""

    folder: RunFolder
    attempt: str
    node_rank: int
    host: str
    machine: MachineFacts
    address: str = ""  # of the first host; empty: it stands in the spec


def take_part(part: HostPart, launcher: Launcher, stop: Callable[[], bool] = lambda: False) -> None:
    """Makes this host's part of the run and returns when nothing of it is left; its report says what happened."""
    reporter = _Reporter(part)
    try:
        spec = _own_spec(part, reporter)
    except (BadRecord, LaunchFailed) as problem:
        hint = problem.hint if isinstance(problem, LaunchFailed) else "do all hosts share the folder?"
        reporter.report("refused", sentence=str(problem), hint=hint)
        return
    if spec is None:
        return
    try:
        ranks = launcher.start(spec, part.folder)
    except LaunchFailed as problem:
        reporter.report("refused", sentence=problem.sentence, hint=problem.hint, world=problem.world)
        return
    try:
        sentence, hint = _stay(reporter, ranks, stop)
    except LaunchFailed as problem:
        sentence, hint = problem.sentence, problem.hint
    finally:
        reporter.views(ranks)
        ranks.end()
        world = ranks.close()
    stage: Stage = "refused" if sentence else "left" if stop() else "closed"
    reporter.report(stage, sentence=sentence, hint=hint, world=world)


def _own_spec(part: HostPart, reporter: "_Reporter") -> RunSpec | None:
    """The spec as this host's ranks are to read it, written beside the planner's; None if the planner has gone."""
    spec = read_json(part.folder.spec, RunSpec)
    planner = read_json(part.folder.machine, MachineFacts)
    assert spec.nodes is not None
    reporter.port = spec.nodes.master_port
    if not reporter.port and part.node_rank == 0:
        reporter.port = _free_port()
    reporter.report("starting")
    while not reporter.port:
        first = read_report(part.folder.report(0))
        if first is not None and first.attempt == part.attempt:
            reporter.port = first.port
        elif reporter.order_is_over():
            return None
        else:
            time.sleep(_PORT_LOOK_SECONDS)
    own = replace(
        spec,
        nodes=replace(
            spec.nodes,
            node_rank=part.node_rank,
            master_address=part.address or spec.nodes.master_address,
            master_port=reporter.port,
        ),
        shares=_own_shares(spec, planner, part.machine),
        folder_use=spec.folder_use if part.node_rank == 0 else "plain",  # one host lists the files that all share
    )
    write_json(part.folder.spec_on(part.node_rank), own)
    write_json(part.folder.machine_on(part.node_rank), part.machine)
    return own


def _own_shares(spec: RunSpec, planner: MachineFacts, here: MachineFacts) -> tuple[tuple[int, ...], ...]:
    """The same shares by the numbers that the cores have here; hosts of a cluster give a job different cores."""
    places = {core: index for index, core in enumerate(sorted(planner.cores))}
    cores = sorted(here.cores)
    return tuple(tuple(cores[places.get(core, core) % len(cores)] for core in share) for share in spec.shares)


def _stay(reporter: "_Reporter", ranks: RankProcesses, stop: Callable[[], bool]) -> tuple[str, str]:
    """Stays until the planner orders the end, or has gone; returns why nothing was started, or two empty texts."""
    sampled_seconds = reported_seconds = 0.0
    told: object = None
    problem = "", ""
    ended: set[int] = set()
    while not stop() and not reporter.order_is_over():
        ranks.wait(_LOOK_SECONDS)
        now = time.monotonic()
        if now - sampled_seconds >= _SAMPLE_SECONDS:
            sampled_seconds = now
            ranks.sample()
        if any(end.signal == "SIGTERM" and rank not in ended for rank, end in ranks.exits.items()):
            time.sleep(_SHARED_END_SECONDS)
            if stop():
                break
        ended = set(ranks.exits)
        if reporter.stacks_wanted:
            live = [view.rank for view in ranks.views() if view.exit is None]
            reporter.answer({str(rank): stack for rank, stack in ranks.stacks(live).items()})
            told = None
        news = dict(ranks.exits), ranks.all_started, ranks.over
        if news != told or now - reported_seconds >= REPORT_SECONDS:
            told, reported_seconds = news, now
            if ranks.over:
                problem = ranks.start_problem()
                if problem[0]:
                    return problem
            reporter.views(ranks)
            reporter.report("over" if ranks.over else "running")
    return problem


class _Reporter:
    """The side of the run's notes that this host writes, and what it has read of the planner's."""

    def __init__(self, part: HostPart) -> None:
        self.port = 0
        self._part = part
        self._last = HostReport(part.attempt, 0, part.node_rank, part.host, "starting")
        self._order_number = -1
        self._heard_seconds = time.monotonic()
        self._asked = 0

    @property
    def stacks_wanted(self) -> bool:
        """True if the planner has asked for stacks and has no answer yet."""
        return self._asked > self._last.stacks_asked

    def order_is_over(self) -> bool:
        """True if the planner wants the end, has begun another attempt, or has not been heard of for too long."""
        order = read_order(self._part.folder.order)
        now = time.monotonic()
        if order is not None:
            if order.end or order.attempt != self._part.attempt:
                return True
            self._asked = order.stacks
            if order.number != self._order_number:
                self._order_number, self._heard_seconds = order.number, now
        return now - self._heard_seconds > LOST_SECONDS

    def answer(self, stacks: dict[str, tuple[str, ...]]) -> None:
        """Takes the stacks into the next report."""
        self._last = replace(self._last, stacks=stacks, stacks_asked=self._asked)

    def views(self, ranks: RankProcesses) -> None:
        """Takes the state of the ranks into the next report."""
        seconds = ranks.seconds
        self._last = replace(
            self._last,
            all_started=ranks.all_started,
            ranks=tuple(_state(view, seconds) for view in ranks.views()),
            memory_kills=ranks.memory_kills,
        )

    def report(self, stage: Stage, **values: object) -> None:
        """Leaves a report, unless the planner has begun another attempt: the file would be that one's."""
        self._last = replace(self._last, stage=stage, number=self._last.number + 1, port=self.port, **values)  # type: ignore[arg-type]
        order = read_order(self._part.folder.order)
        if order is None or order.attempt == self._part.attempt:
            leave(self._part.folder.report(self._part.node_rank), self._last)


def _state(view: RankView, seconds: float) -> HostedRank:
    end = view.exit
    return HostedRank(
        rank=view.rank,
        pid=view.pid,
        state=view.state,
        steps=view.steps,
        syncs=view.syncs,
        still_seconds=None if view.moved_seconds is None else seconds - view.moved_seconds,
        queued_seconds=view.queued_seconds,
        exit_code=end.code if end else None,
        signal=end.signal if end else None,
        ended_seconds=seconds - end.at_seconds if end else None,
        secondary=end.secondary if end else False,
    )


def _free_port() -> int:
    with socket.create_server(("", 0)) as free:
        return int(free.getsockname()[1])


def host_name() -> str:
    """The name of this host; under Slurm the one by which its administrator knows it."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()
