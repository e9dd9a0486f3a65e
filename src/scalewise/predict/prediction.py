"""Predicts the step of N ranks from a rehearsal and a link: a number with its interval, its parts and its guesses.

The interval is one of LEVEL. It combines how far computing differs from run to run and how well the link is known,
and is no narrower than the errors that earlier predictions of this kind showed here (the self-check).
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, hypot, log
from statistics import median
from typing import Literal, get_args

from scalewise.analysis.estimate import QUIET_RUN_CV, Estimate, normal_quantile
from scalewise.predict.collective_times import seconds, unmeasured
from scalewise.predict.link import Link
from scalewise.predict.page_faults import KEPT
from scalewise.predict.rehearsed import RehearsedRank
from scalewise.predict.tape import Compute, Issue, Phase, Tape
from scalewise.predict.timeline import APART, Sharing, Timeline, simulate
from scalewise.predict.together import steps_together

LEVEL = 0.90  # of every interval of a rehearsal, also of measured rows: its coverage was counted at this level
QUANTILE = normal_quantile(LEVEL)
NOTABLE = 0.02  # share of a step
Bound = Literal["computing", "communication", "latency", "data"]


@dataclass(frozen=True)
class Spread:
    """The uncertainty of the parts of a prediction, as standard deviations of their logarithms."""

    compute: float = QUIET_RUN_CV
    link: float = 0.0
    model: float = 0.0  # seen in the self-check
    shift: float = 0.0  # mean logarithm of predicted over measured in this script's checks; taken out of the step


@dataclass(frozen=True)
class Predicted:
    """The prediction for one number of ranks."""

    ranks: int
    step: Estimate  # seconds
    timeline: Timeline
    samples: float | None  # of all ranks in one step
    bound: Bound
    peak_bytes: int | None
    guesses: tuple[str, ...]
    sharing: Sharing = APART  # beside its messages
    spread: Spread = Spread()  # of its parts

    @property
    def throughput(self) -> float | None:
        """Samples per second of all ranks."""
        return self.samples / self.step.value if self.samples else None


def predict(rehearsal: RehearsedRank, link: Link, sharing: Sharing = APART, spread: Spread | None = None) -> Predicted:
    """The predicted step over that link, for as many ranks as the rehearsal was for."""
    spread = spread or Spread(link=link.spread)
    ranks = rehearsal.ranks
    alone = [step_seconds(one, link, ranks, sharing) for one in rehearsal.tapes]
    usual = median(alone)
    tape = min(zip(alone, rehearsal.tapes, strict=True), key=lambda one: abs(one[0] - usual))[1]  # its parts are told
    steps = waiting_for_each_other(rehearsal, link, sharing) or alone
    typical = median(steps)
    centre = _with_waiting(simulate(tape, OnLink(link, ranks), sharing), typical - usual)
    reach = hypot(_reach(tape, link, ranks, sharing, spread), _by_pages(rehearsal.page_share, centre))
    return Predicted(
        ranks=ranks,
        step=around(typical * exp(-spread.shift), reach, len(steps)),
        timeline=centre,
        samples=rehearsal.samples_of_all(tape),
        bound=_bound(tape, centre, link, ranks),
        peak_bytes=rehearsal.peak_bytes,
        guesses=(*link.guesses, *_not_measured(link, tape, centre), *rehearsal.left_out),
        sharing=sharing,
        spread=spread,
    )


def waiting_for_each_other(rehearsal: RehearsedRank, link: Link, sharing: Sharing = APART) -> list[float] | None:
    """The steps of all ranks together, each as long as that of its slowest rank; None where nothing is known of that.

    Where only the slowest step of each company is known, as many companies as there are ranks for wait for each other.
    """
    processes = rehearsal.by_process or (rehearsal.tapes,)
    ranks = rehearsal.ranks if rehearsal.by_process else -(-rehearsal.ranks // rehearsal.company)
    return steps_together(processes, ranks, OnLink(link, rehearsal.ranks), sharing)


def _with_waiting(line: Timeline, seconds: float) -> Timeline:
    """The course of a step in which a rank also waits so long for the slowest; that is exposed, too."""
    exposed = max(0.0, line.exposed_seconds + seconds)
    return replace(line, step_seconds=line.step_seconds + seconds, exposed_seconds=exposed)


def around(value: float, reach: float, steps: int) -> Estimate:
    """A predicted number; `reach` is half its interval, as a logarithm."""
    low, high = value * exp(-reach), value * exp(reach)
    return Estimate(value, low, high, steps, 1, "predicted from a rehearsal", LEVEL, positive=True)


def step_seconds(tape: Tape, link: Link, ranks: int, sharing: Sharing = APART) -> float:
    """The time of one tape's step over one link."""
    return simulate(tape, OnLink(link, ranks), sharing).step_seconds


class OnLink:
    """The seconds of a message over a link, remembered because a sweep asks for the same message thousands of times."""

    def __init__(self, link: Link, ranks: int, factor: float = 1.0, of_kinds: frozenset[str] | None = None) -> None:
        """The factor multiplies the seconds of these kinds; None: of all."""
        self._link, self._ranks, self._factor, self._kinds = link, ranks, factor, of_kinds
        self._known: dict[tuple[str, float, int, int], float] = {}

    def __call__(self, message: Issue) -> float:
        """The seconds of this message over the link."""
        key = (message.kind, message.size_bytes, message.ranks or self._ranks, message.nodes)
        found = self._known.get(key)
        if found is None:
            factor = self._factor if self._kinds is None or message.kind in self._kinds else 1.0
            found = self._known[key] = factor * seconds(self._link, *key)
        return found


def _not_measured(link: Link, tape: Tape, line: Timeline) -> tuple[str, ...]:
    """A guess that names the kinds of messages that take a notable part of the step but were not measured."""
    taken: dict[str, float] = defaultdict(float)
    for one in tape.messages:
        taken[one.kind] += seconds(link, one.kind, one.size_bytes, one.ranks or tape.ranks, one.nodes)
    least = NOTABLE * line.step_seconds * tape.steps
    kinds = unmeasured(link, {kind for kind, time in taken.items() if time > least})
    return (f"that {', '.join(kinds)} differ from measured all-reduces as their algorithms do",) if kinds else ()


def _reach(tape: Tape, link: Link, ranks: int, sharing: Sharing, spread: Spread) -> float:
    """Half the interval, as a logarithm: each part is shifted by its own uncertainty, and the effects add in squares.

    Errors of earlier predictions include those of their computing and their link, so they are not added to these:
    the wider of both counts.
    """
    centre = simulate(tape, OnLink(link, ranks), sharing).step_seconds
    if centre <= 0:
        return 0.0
    slower = tape.scaled(dict.fromkeys(get_args(Phase), exp(QUANTILE * spread.compute)))
    by_compute = log(simulate(slower, OnLink(link, ranks), sharing).step_seconds / centre)
    heavier = OnLink(link, ranks, exp(QUANTILE * spread.link))
    by_link = log(simulate(tape, heavier, sharing).step_seconds / centre)
    return max(hypot(by_compute, by_link), QUANTILE * spread.model)


def _by_pages(share: float, line: Timeline) -> float:
    """The shift of a step, as a logarithm, if real ranks take none of the memory anew that the rehearsal took."""
    if not line.step_seconds:
        return 0.0
    whole = line.compute_seconds / (1 - (1 - KEPT) * share)
    return log(1 + KEPT * share * whole / line.step_seconds)


def _bound(tape: Tape, line: Timeline, link: Link, ranks: int) -> Bound:
    waiting = sum(one.seconds for one in tape.entries if isinstance(one, Compute) and one.phase == "data")
    if line.exposed_seconds + line.slowed_seconds < 0.5 * line.step_seconds:
        return "data" if waiting > 0.5 * line.compute_seconds * tape.steps else "computing"
    latency = sum(seconds(link, one.kind, 0.0, one.ranks or ranks, one.nodes) for one in tape.messages)
    return "latency" if latency > 0.5 * line.message_seconds * tape.steps else "communication"


def spread_of_errors(ratios: Sequence[float]) -> float:
    """The model's error from ratios of predicted to measured: the standard deviation of their logarithms around 0."""
    return (sum(log(ratio) ** 2 for ratio in ratios) / len(ratios)) ** 0.5 if ratios else 0.0
