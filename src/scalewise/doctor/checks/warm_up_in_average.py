"""Detects an average of step times that includes the first steps, which are slower than all others."""

import itertools
from dataclasses import dataclass
from statistics import fmean

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.finding import Check, Finding, Price
from scalewise.doctor.queries.ranks import short
from scalewise.doctor.queries.script_clocks import ClockSpan, spans_of
from scalewise.records.notes import ClockNote, StepNote
from scalewise.units import counted

CHECK = Check(
    name="warm-up-in-average",
    group="timing",
    severity="wrong",
    detects="The script makes an average of a time that includes its very first steps, and these were much slower.",
    why="The first steps allocate, compile, choose kernels and set up connections. In an average of few steps they "
    "make every later one look slower than it is.",
    example="start = time.perf_counter()\nfor _ in range(20):\n    step()\nprint((time.perf_counter() - start) / 20)",
    fix="for _ in range(5):\n    step()  # not timed\nstart = time.perf_counter()\nfor _ in range(20):\n    step()\n"
    "print((time.perf_counter() - start) / 20)",
    needs="a clock read before the first step, one after eight or more, and a division by it or of it in the script",
    silent="Times of whole epochs or runs of which no average is made; rates of single steps; averages so long that "
    "the first steps do not matter; medians, and lists whose beginning is left out.",
)
LEAST_STEPS = 8
FIRST = 3  # number of steps that are warm-up
LEAST_EXCESS = 0.10  # share of the settled average
LEAST_SECONDS = 0.03  # least extra time of the first steps: the close examination may cost less


@dataclass(frozen=True)
class _Average:
    """The average that the script computed, and what it would be without the first steps."""

    spans: list[ClockSpan]
    steps: int
    mean: float  # seconds per step
    settled: float
    first: float  # longest of the first steps
    later: float  # mean of the later steps

    @property
    def excess(self) -> float:
        return self.mean / self.settled - 1


def examine(case: Case) -> tuple[Finding, ...]:
    """Looks at the clocks of the lowest rank that reads any, and returns the average that is most too high."""
    rank = next((rank for rank in case.ranks if rank.all(ClockNote)), None)
    if rank is None:
        raise Abstain("the script reads no clock")
    if len(rank.windows) < LEAST_STEPS:
        raise Abstain(f"needs {LEAST_STEPS} optimizer steps, saw {len(rank.windows)}")
    averages = [one for group in _groups(rank) if (one := _average(rank, group)) is not None and _matters(one)]
    return (_finding(rank, max(averages, key=lambda one: one.excess)),) if averages else ()


def _groups(rank: RankCase) -> list[list[ClockSpan]]:
    """Returns the spans of which an average is made: one that holds many steps, or many of one step each."""
    spans = [span for span in spans_of(rank) if span.measure is not None and span.steps]
    longest = {(span.where.index, span.measure): span for span in spans if _divided(span) and _is_first(rank, span)}
    for span in spans:  # a clock that is restarted now and then measures settled steps, too
        if not _is_first(rank, span):
            longest.pop((span.where.index, span.measure), None)
    single: dict[object, list[ClockSpan]] = {}
    for span in spans:
        if span.steps == 1 and span.measure is not None and span.measure.gathered:
            single.setdefault((span.where.index, span.measure), []).append(span)
    return [*([span] for span in longest.values() if span.steps > 1), *single.values()]


def _is_first(rank: RankCase, span: ClockSpan) -> bool:
    """Returns True if the span begins before the first step of the run."""
    return not any(isinstance(note, StepNote) for note in rank.notes[: span.begin])


def _divided(span: ClockSpan) -> bool:
    measure = span.measure
    return measure is not None and (measure.averaged or span.steps in measure.divisors)


def _average(rank: RankCase, spans: list[ClockSpan]) -> _Average | None:
    """Returns the average over the spans; None unless they begin before the first step and hold enough steps."""
    if not _is_first(rank, spans[0]):
        return None
    seconds = [span.seconds for span in spans] if len(spans) > 1 else _step_seconds(rank, spans[0])
    if len(seconds) < LEAST_STEPS:
        return None
    work = seconds if len(spans) > 1 else _work_seconds(rank, seconds)
    settled, later = fmean(seconds[FIRST:]), fmean(work[FIRST:])
    # Only the first steps' excess over later ones is warm-up, without what the script does before a step opens.
    mean = settled + (sum(work[:FIRST]) - FIRST * later) / len(seconds)
    return _Average(spans, len(seconds), mean, settled, max(work[:FIRST]), later) if settled > 0 else None


def _step_seconds(rank: RankCase, span: ClockSpan) -> list[float]:
    """Returns the times from the end of one step to the end of the next."""
    ends = [note.at_ns for note in span.notes if isinstance(note, StepNote)]
    edges = [rank.notes[span.begin].at_ns, *ends]
    return [(after - before) / 1e9 for before, after in itertools.pairwise(edges)]


def _work_seconds(rank: RankCase, seconds: list[float]) -> list[float]:
    """Returns the times of steps and their data alone.

    Other work, such as rollouts, may take longer before the first update than between two updates.
    """
    rows = [row for row in rank.record.steps if row.step < len(seconds)]
    if len(rows) < LEAST_STEPS or rows[FIRST - 1].step != FIRST - 1:
        return seconds
    return [(row.step_ns + row.data_ns - row.data_inside_ns) / 1e9 for row in rows]


def _matters(one: _Average) -> bool:
    extra = (one.mean - one.settled) * one.steps
    return one.excess > LEAST_EXCESS and extra > LEAST_SECONDS


def _finding(rank: RankCase, one: _Average) -> Finding:
    span = one.spans[-1]
    text = span.started.text.partition("  #")[0]
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"The average made at {short(span.where)} includes the first steps and is {one.excess:.0%} too high: "
        f"{one.mean * 1000:.3g} ms per step over {counted(one.steps, 'step')}, {one.settled * 1000:.3g} ms without "
        f"the first {FIRST}.",
        evidence=(
            f"the clock is first read at {short(span.started)}, before the first step of the run",
            f"longest of the first {FIRST} steps: {one.first * 1000:.3g} ms; average of the {one.steps - FIRST} after "
            f"them: {one.later * 1000:.3g} ms",
        ),
        fix=f"for _ in range(5):\n    ...  # the same step, not timed\n{text}",
        where=span.where,
        also=(span.started,) if span.started != span.where else (),
        price=Price(1 + one.excess, "times", "the script's own average over the settled one", "measured by the host"),
        ranks=(rank.rank,),
        steps_seen=one.steps,
    )
