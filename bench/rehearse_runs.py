"""One point rehearsed and measured at the same time: runs that take turns step by step, so that no drift parts them.

What is predicted rests on the rehearsal, and on all-reduces measured by themselves; never on the runs it is held
against.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from bench.emulated_link import emulated_link, with_real_messages
from bench.rehearse_points import LINEAR, Point
from bench.runs import made, run_spec
from scalewise.analysis.estimate import Estimate
from scalewise.jobs.machine_probes import OVERLAP_REPEATS, OVERLAP_SIZES, SIZES, collectives_of
from scalewise.launch.forkserver import Servers
from scalewise.plan.seating import seats
from scalewise.predict.collective_times import seconds
from scalewise.predict.compute_noise import compute_spread
from scalewise.predict.link import Link
from scalewise.predict.measured_link import measured_link
from scalewise.predict.prediction import Spread, predict
from scalewise.predict.probe import LinkProbe, overlaps_of, place_of, sharing_of
from scalewise.predict.rehearsed import WARM_UP_STEPS, NotRehearsed, RehearsedRank, rehearsed
from scalewise.predict.seen_errors import UNCHECKED
from scalewise.predict.self_check import model_spread
from scalewise.predict.timeline import APART, Sharing
from scalewise.records.folder import RunFolder
from scalewise.records.load import Run, load
from scalewise.records.machine import MachineFacts
from scalewise.records.spec import Change, RunSpec, Turns
from scalewise.records.spec import Rehearsed as StandIns
from scalewise.units import NANO

MESSAGES = 10  # of each size in a run
EMULATED_BEFORE = 0.025  # error over emulated links in earlier runs of this benchmark, a standard deviation


@dataclass(frozen=True)
class Checked:
    """Predicted against measured at one point."""

    name: str
    link: str
    predicted: Estimate
    measured: float
    late: float = 0.0  # share of messages whose real one took longer than the emulated link
    simpler: float | None = None  # predicted by a simpler model: the link alone, no work for messages on the cores

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted.value / self.measured - 1

    @property
    def inside(self) -> bool:
        """Whether the interval holds what was measured."""
        return self.predicted.low <= self.measured <= self.predicted.high


@dataclass(frozen=True)
class Place:
    """Where the runs are made."""

    servers: Servers
    machine: MachineFacts
    ranks: int
    folder: Path
    emulates: bool = True  # links as well

    def spec(self, script: Path, args: Sequence[str], name: str) -> RunSpec:
        """As many ranks on shares of four cores, or fewer where there are not so many."""
        cores = self.machine.cores
        seated = seats(cores, self.ranks, [max(self.ranks, len(cores) // 4)])
        threads = len(seated.shares[0]) if seated.shares else 1
        spec = run_spec(script, args, name, self.machine, ranks=self.ranks)
        return replace(spec, shares=seated.shares, threads_per_rank=threads, oversubscribed=seated.oversubscribed)

    def runs(self, specs: Sequence[RunSpec]) -> list[Run]:
        """Makes them and reads them back, in their order."""
        folder = Path(tempfile.mkdtemp(prefix="runs-", dir=self.folder))
        made(specs, folder, self.machine, self.servers)
        found = {run.spec.name: run for run in load(folder).runs}
        return [found[spec.name] for spec in specs]

    def rehearsal(self, spec: RunSpec) -> RunSpec:
        """The same in company of as many as there will be."""
        kind = StandIns(self.ranks, 0, self.ranks, inspected=spec.inspected)
        return replace(spec, name=f"{spec.name}-rehearsed", kind=kind)

    def messages(self, runs: int) -> tuple[Run, ...]:
        """All-reduces right after computing, as they come in a step."""
        args = ("--hot", "--sizes", ",".join(map(str, SIZES)), "--repeats", str(MESSAGES))
        spec = self.spec(LINEAR.with_name("allreduce.py"), args, "messages")
        return tuple(self.runs([spec])[0] for _ in range(runs))

    def link(self, runs: Sequence[Run]) -> Link:
        """By the all-reduces of these runs."""
        place = place_of(self.machine, "cpu", runs[0].spec.threads_per_rank or 0)
        points = tuple(one for run in runs for one in collectives_of(run))
        link = measured_link(LinkProbe(place, 0.0, 0.0, points), self.ranks)
        if not isinstance(link, Link):
            raise RuntimeError(f"the link cannot be measured here: {link.reason}")
        return link

    def sharing(self) -> Sharing:
        """How computing and all-reduces share the cores, measured as `scalewise machine --measure` does."""
        args = ("--sizes", ",".join(map(str, OVERLAP_SIZES)), "--repeats", str(OVERLAP_REPEATS))
        spec = self.spec(LINEAR.with_name("interference.py"), args, "beside")
        (run,) = self.runs([spec])
        return sharing_of(overlaps_of(run, OVERLAP_SIZES), spec.threads_per_rank or 1, self.ranks)


@dataclass(frozen=True)
class Seen:
    """What is known before a point is predicted: messages, how cores are shared, how far off earlier points were."""

    messages: tuple[Run, ...]  # of the last minute
    sharing: Sharing
    emulated: tuple[Checked, ...] = ()
    plain: tuple[Checked, ...] = ()


def checked(place: Place, point: Point, seen: Seen, repeats: int) -> Seen:
    """With this point over gloo as it is, and over the emulated link where links are emulated."""
    rings = [place.runs(_ring(place, point, number)) for number in range(repeats)]
    rehearsals, plain, *emulated = zip(*rings, strict=True)
    taken, hot = together(rehearsals), place.link(seen.messages)
    over_gloo = Checked(point.name, "gloo", foreseen(taken, hot, seen.sharing, seen.plain), step_seconds(plain))
    over_link = [_emulated(place, point, seen, taken, runs) for runs in emulated]
    return replace(seen, plain=(*seen.plain, over_gloo), emulated=(*seen.emulated, *over_link))


def _emulated(place: Place, point: Point, seen: Seen, taken: RehearsedRank, runs: Sequence[Run]) -> Checked:
    link = emulated_link(point.latency_seconds, point.bytes_per_second)
    busy = with_messages_carried(taken, place.link(seen.messages), seen.sharing)
    step = foreseen(busy, link, APART, seen.emulated, EMULATED_BEFORE)
    simpler = predict(taken, link).step.value
    return Checked(point.name, point.link_text, step, step_seconds(runs), late_share(runs), simpler)


def with_messages_carried(taken: RehearsedRank, hot: Link, sharing: Sharing) -> RehearsedRank:
    """The real messages keep the cores busy behind an emulated link or a shaped one as well."""
    return with_real_messages(
        taken, lambda one: sharing.work * seconds(hot, one.kind, one.size_bytes, one.ranks, one.nodes)
    )


def foreseen(
    taken: RehearsedRank, link: Link, sharing: Sharing, earlier: Sequence[Checked], before: float = UNCHECKED
) -> Estimate:
    """With an interval as `scalewise rehearse` has it, earlier points being its self-check."""
    model = model_spread([1 + one.error for one in earlier], before)
    return predict(taken, link, sharing, Spread(compute_spread([taken]), link.spread, model)).step


def _ring(place: Place, point: Point, number: int) -> list[RunSpec]:
    """Rehearsed, as it is and over the emulated link, in an order that rotates, each ready to take turns."""
    plain = place.spec(point.script, point.words, "plain")
    link = Change("emulate_link", {"seconds": point.latency_seconds, "bytes_per_second": point.bytes_per_second})
    emulated = [replace(plain, name="emulated", changes=(link,))] if place.emulates else []
    arms = [place.rehearsal(plain), plain, *emulated]
    return [
        replace(arm, repeat=number, turns=Turns("ring", (index + number) % len(arms), len(arms)), limit_seconds=300.0)
        for index, arm in enumerate(arms)
    ]


def together(runs: Sequence[Run]) -> RehearsedRank:
    """All rehearsals of a point as one."""
    found = [rehearsed(run) for run in runs]
    for one in found:
        if isinstance(one, NotRehearsed):
            raise RuntimeError(one.reason)
    good = [one for one in found if isinstance(one, RehearsedRank)]
    return good[0].with_tapes([tape for one in good for tape in one.tapes])


def step_seconds(runs: Sequence[Run]) -> float:
    """Median over steps of all runs; ranks wait for one another, so their mean is what a step took."""
    steps = []
    for run in runs:
        by_rank = [{row.step: row.step_ns for row in rank.steps if row.step >= WARM_UP_STEPS} for rank in run.ranks]
        common = set.intersection(*(set(rows) for rows in by_rank))
        steps += [sum(rows[step] for rows in by_rank) / len(by_rank) * NANO for step in common]
    return median(steps)


def printed(run: Run) -> list[str]:
    """What each rank wrote to standard output."""
    folder = RunFolder(run.folder)
    return [folder.stdout(rank.rank).read_text() for rank in run.ranks]


def late_share(runs: Sequence[Run]) -> float:
    """Of the messages, those that the link could not hold back because the real ones took longer."""
    ends = [rank.end.changes_applied for run in runs for rank in run.ranks if rank.end]
    sent = sum(end.get("emulate_link", 0) for end in ends)
    return sum(end.get("emulate_link late", 0) for end in ends) / sent if sent else 0.0
