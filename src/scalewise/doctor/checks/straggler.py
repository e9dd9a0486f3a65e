"""Detects a rank that takes longer than the others in nearly every step, so that they wait for it."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from statistics import median

from scalewise.analysis.machine_state import machine_state
from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.finding import Check, Finding, Price
from scalewise.doctor.queries.inputs import Replicas, require_replicas
from scalewise.doctor.queries.times import PHASES, WARM_UP, OwnTime, longest_pause_at, own_times, quantile
from scalewise.records.examination import PlaceRow
from scalewise.records.notes import BackwardNote, BatchNote, ForwardNote, Note
from scalewise.units import NANO, named_ranks, seconds_text

LEAST_STEPS = 6
LEAST_RATIO = 1.5
LEAST_GAP_NS = 1e6
LEAST_GAP_SHARE = 0.1  # share of the step
STEPS_SHARE = 0.8  # share of the steps that must show it: an operating system takes a core away only now and then
WAITED_SHARE = 0.5  # share of the gap that the others must be seen to wait
CAUSE_SHARE = 0.6  # share of the gap that must lie in one cause: noise is spread over several
# A core that is shared with other programs makes its rank slow. Quick steps are compared then, as other programs rarely
# disturb them, and a difference that a shared core can cause does not count.
BUSY_LEVEL = 0.2
BUSY_RATIO = 3.0
BUSY_GAP_NS = 5e6
BUSY_STEPS = 10
FORWARD_SHARE = 0.15  # backward takes two to three times as long as forward

CHECK = Check(
    name="straggler",
    group="machine",
    severity="slow",
    detects="One rank's own work (data, forward, backward or host) takes much longer than that of the others.",
    why="Every step ends when the slowest rank has come to the all-reduce: all ranks pay for one.",
    example="if rank == 0:\n    save_pictures(batch)  # in every step, while the others wait in backward",
    fix="if rank == 0 and step % 100 == 0:\n    save_pictures(batch)",
    needs=f"{LEAST_STEPS} settled steps of two ranks that average their gradients",
    silent="Noise: it must show in four steps of five, be more than 1 ms and a tenth of the step, and the others must "
    "be seen to wait. While other programs use the cores, only a three-fold difference counts.",
)


@dataclass(frozen=True)
class Behind:
    """A slow rank and the time by which it is behind in its median (or quick) steps, in nanoseconds."""

    rank: int
    among: int  # number of ranks that wait for one another
    own: float
    others: float
    waited: float  # how much longer the others wait than the rank itself
    phases: dict[str, float]  # gap of each phase
    least: float  # smallest gap that counts
    share: float  # share of the steps that show it
    steps: int

    @property
    def gap(self) -> float:
        """The time by which it takes longer than the others."""
        return self.own - self.others

    @property
    def cause(self) -> float:
        """The gap of the largest cause; forward and backward together count as one."""
        phases = self.phases
        return max(phases["data"], phases["host"], phases["forward"] + phases["backward"])

    @property
    def phase(self) -> str:
        """The phase with the largest gap; forward if backward is longest only because forward does more work."""
        largest = max(self.phases, key=lambda phase: self.phases[phase])
        computes = largest == "backward" and self.phases["forward"] > FORWARD_SHARE * self.gap
        return "forward" if computes else largest


def examine(case: Case) -> tuple[Finding, ...]:
    """Compares each rank's own time with that of the others; on a busy machine by their quick steps."""
    busy = _busy(case)
    measured = [times for group in require_replicas(case) if (times := _times(case, group))]
    if not measured:
        raise Abstain(f"needs {LEAST_STEPS} settled steps of two ranks that average their gradients")
    found = [behind for times in measured if (behind := _slowest(times, BUSY_LEVEL if busy else 0.5)) is not None]
    doubtful = [one for one in found if busy and not _beyond_load(one)]
    if doubtful:
        raise Abstain(f"rank {doubtful[0].rank} is behind, but other programs used the cores ({busy})")
    return tuple(_finding(case, one, "quick" if busy else "middle") for one in found)


def _beyond_load(one: Behind) -> bool:
    """Returns True if a core that is shared with other programs cannot cause such a difference."""
    return one.own >= BUSY_RATIO * one.others and one.gap >= BUSY_GAP_NS and one.steps >= BUSY_STEPS


def _busy(case: Case) -> str:
    """Returns the load by other programs in words; empty if there was none."""
    state = machine_state(case.run)
    if state.foreign is None:
        return "not measured: the run was too short"
    return state.text() if state.loaded else ""


def _times(case: Case, group: Replicas) -> dict[int, list[OwnTime]] | None:
    """Returns each rank's times in the windows that all ranks of the group have, or None if there are too few."""
    by_rank = {
        rank.rank: {one.number: one for one in own_times(rank) if one.number >= WARM_UP}
        for rank in case.ranks
        if rank.rank in group.ranks
    }
    if len(by_rank) < 2:
        return None
    shared = sorted(set.intersection(*(set(times) for times in by_rank.values())))
    return (
        {rank: [times[one] for one in shared] for rank, times in by_rank.items()}
        if len(shared) >= LEAST_STEPS
        else None
    )


def _slowest(times: Mapping[int, list[OwnTime]], level: float) -> Behind | None:
    found = [behind for rank in times if _matters(behind := _behind(rank, times, level))]
    return max(found, key=lambda one: one.gap, default=None)


def _behind(rank: int, times: Mapping[int, list[OwnTime]], level: float) -> Behind:
    mine, rest = times[rank], [one for number, one in times.items() if number != rank]

    def own(value: Callable[[OwnTime], int]) -> float:
        return quantile([value(time) for time in mine], level)

    def others(value: Callable[[OwnTime], int]) -> float:
        return median(quantile([value(time) for time in one], level) for one in rest)

    usual = others(lambda time: time.own)
    least = max(LEAST_GAP_NS, LEAST_GAP_SHARE * own(lambda time: time.span))
    return Behind(
        rank=rank,
        among=len(times),
        own=own(lambda time: time.own),
        others=usual,
        # A rank that other programs hold up in some steps waits in the others only, which the median leaves out.
        waited=median(median(time.waited for time in one) for one in rest) - median(time.waited for time in mine),
        phases={phase: own(attrgetter(phase)) - others(attrgetter(phase)) for phase in PHASES},
        least=least,
        share=sum(time.own > max(LEAST_RATIO * usual, usual + least) for time in mine) / len(mine),
        steps=len(mine),
    )


def _matters(one: Behind) -> bool:
    """Returns True if the rank is behind in nearly all steps, by enough, from one cause, and the others wait for it."""
    return (
        one.share >= STEPS_SHARE
        and one.own > LEAST_RATIO * one.others
        and one.gap > one.least
        and one.waited > WAITED_SHARE * one.gap
        and one.cause >= CAUSE_SHARE * one.gap
    )


def _finding(case: Case, one: Behind, steps: str) -> Finding:
    rank = next(rank for rank in case.ranks if rank.rank == one.rank)
    own, others = seconds_text(one.own * NANO), seconds_text(one.others * NANO)
    cause = {
        "data": "waiting for its data",
        "forward": "more computing, in forward and in backward",
        "backward": "its backward pass",
        "host": "the script's own lines on the host",
    }[one.phase]
    return Finding(
        check=CHECK.name,
        severity="slow",
        sentence=f"Rank {one.rank} needs {own} of its own per step, the others {others}: the cause is {cause}.",
        evidence=tuple(_evidence(case, one)),
        fix=_fix(one),
        where=_where(rank, one.phase),
        price=_price(one, steps),
        ranks=(one.rank,),
        steps_seen=one.steps,
    )


def _price(one: Behind, steps: str) -> Price:
    """Returns what the others wait. If the rank has more to compute, that work remains and is shared by all ranks."""
    if one.phase != "forward":
        return Price(one.gap / 1e6, "ms per step", f"waiting for rank {one.rank}", f"measured in the {steps} steps")
    saved = one.gap * (one.among - 1) / one.among
    how = f"by the {steps} steps: all ranks with the same to compute"
    return Price(saved / 1e6, "ms per step", f"rank {one.rank}'s surplus, shared equally", how)


def _evidence(case: Case, one: Behind) -> Iterator[str]:
    rest = [rank.rank for rank in case.ranks if rank.rank != one.rank]
    yield f"in {one.share:.0%} of {one.steps} steps"
    parts = ", ".join(f"{phase} {seconds_text(value * NANO)}" for phase, value in one.phases.items())
    yield f"longer on rank {one.rank}, by phase: {parts}"
    yield f"{named_ranks(rest)} wait{'s' if len(rest) == 1 else ''} {seconds_text(one.waited * NANO)} longer per step"


def _where(rank: RankCase, phase: str) -> PlaceRow | None:
    """Returns the line of the phase; for the host, the line that follows the longest pause."""
    kinds: dict[str, type[Note]] = {"data": BatchNote, "forward": ForwardNote, "backward": BackwardNote}
    if phase in kinds:
        return rank.place(next((note for window in rank.windows for note in window.all(kinds[phase])), None))
    pairs = zip(rank.windows[WARM_UP:], rank.windows[WARM_UP - 1 :], strict=False)
    places = Counter(longest_pause_at(window, before) for window, before in pairs)
    return rank.places.get(places.most_common(1)[0][0]) if places else None


def _fix(one: Behind) -> str:
    texts = {
        "data": f"# rank {one.rank} reads its data more slowly: give all ranks the same kind of samples and storage,\n"
        "loader = DataLoader(dataset, num_workers=2, persistent_workers=True, ...)",
        "forward": f"# give rank {one.rank} as much work as the others: equal batch sizes and sequence lengths\n"
        "batches = sorted_by_length[dist.get_rank()::dist.get_world_size()]",
        "backward": f"# what only rank {one.rank} does in backward (hooks on gradients) belongs after it\n"
        "if step % 100 == 0:\n    log_gradients(model)  # after backward",
        "host": f"if step % 100 == 0:  # what only rank {one.rank} does between its steps\n    ...",
    }
    return texts[one.phase]
