"""The rows of H1.5A: steps with a delay on one rank and on several, and what follows from the steps without one."""

from dataclasses import dataclass, replace

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.line_fit import Line, fit_line, spread_of
from scalewise.analysis.propagate import propagate
from scalewise.analysis.ratio import ratio_of
from scalewise.analysis.scaling import serial_fraction
from scalewise.analysis.summary import ArmRow
from scalewise.course.homework1.comparable_rows import again, measured_there, scaling_rows, why_no_scaling
from scalewise.course.homework1.doubts import doubt_of
from scalewise.course.homework1.predicted_ranks import predicted_ranks
from scalewise.course.selected_arms import COURSE_LEVEL, step_ratio
from scalewise.report.cells import estimate_cell, number_cell, text_cell
from scalewise.report.document import Cell, Mark

EXPERIMENT = "delay"


@dataclass(frozen=True)
class Delayed:
    """One delay: the steps of one rank and of several, with the measured speedup and that by the law."""

    seconds: float
    one: Estimate | None
    many: Estimate | None
    measured: Estimate | None  # speedup
    law: Estimate | None  # (T1 + d) / (TN + d) from the steps without delay
    serial: float | None  # share of one rank's step that is serial, by the law
    share: Estimate | None  # of one rank's step that is this delay: what no number of ranks divides
    doubt: str = ""


@dataclass(frozen=True)
class Delays:
    """The data for H1.5A."""

    ranks: int  # of the several
    mark: Mark  # of the several: measured or predicted
    rows: tuple[Delayed, ...]
    one_line: Line | None  # step of one rank over the delay
    many_line: Line | None
    hole: str
    machine: str = ""  # where every row was measured, if not here

    @property
    def slopes(self) -> tuple[Cell, Cell]:
        """The growth of a step in ms for each ms of delay: on one rank, on several."""
        return tuple(  # type: ignore[return-value]
            estimate_cell(line.slope if line else None, why_empty="not measured")
            for line in (self.one_line, self.many_line)
        )


def delays(evidence: Evidence) -> Delays:
    """Returns the delays on the most measured ranks; else on one rank, with H1.2's prediction for several."""
    rows = scaling_rows(evidence, EXPERIMENT)
    ranks = max((row.ranks for row in rows), default=1)
    there = measured_there(evidence, EXPERIMENT, 4, delay=0) or measured_there(evidence, EXPERIMENT, 2, delay=0)
    if ranks == 1 and there is not None:
        return replace(delays(replace(there.evidence, elsewhere=())), machine=there.machine)
    values = sorted({float(row.axes["delay"]) for row in rows if "delay" in row.axes})
    mark: Mark = "measured"
    steps = {(float(row.axes["delay"]), row.ranks): row for row in rows if "delay" in row.axes}
    plain_one, plain_many = (_step(evidence, steps.get((0.0, count))) for count in (1, ranks))
    if ranks == 1:
        found = predicted_ranks(evidence, "strong-scaling").rows
        ranks, mark = (found[-1].ranks, "predicted") if found else (1, "missing")
        plain_many = found[-1].step if found else None
    faster = (
        step_ratio(evidence, steps.get((0.0, 1)), steps.get((0.0, ranks)))
        if mark == "measured"
        else ratio_of(plain_one, plain_many)
        if plain_one is not None and plain_many is not None
        else None
    )
    made = []
    for delay in values:
        one, many = steps.get((delay, 1)), steps.get((delay, ranks)) if ranks > 1 else None
        law = _law(faster, plain_many, delay)
        made.append(
            Delayed(
                seconds=delay,
                one=_step(evidence, one),
                many=plain_many if mark == "predicted" and not delay else _step(evidence, many),
                measured=step_ratio(evidence, one, many) if mark == "measured" and ranks > 1 else None,
                law=law,
                serial=_serial(plain_one, plain_many, ranks, delay),
                share=_share(_step(evidence, one), delay),
                doubt=doubt_of(evidence, many) or doubt_of(evidence, one),
            )
        )
    lines = tuple(_line(made, several) for several in (False, True))
    hole = why_no_scaling(evidence, EXPERIMENT)
    return Delays(ranks, mark, tuple(made), lines[0], lines[1], hole)


def _step(evidence: Evidence, row: ArmRow | None) -> Estimate | None:
    step = row.step_seconds if row is not None else None
    return again(evidence).widened(step.at(COURSE_LEVEL)) if step is not None else None


def _law(faster: Estimate | None, many: Estimate | None, delay: float) -> Estimate | None:
    """Returns the speedup by Amdahl's law with the delay in the serial part, from T1 / TN and TN.

    s' = (s T1 + d) / (T1 + d) gives (T1 + d) / (TN + d). The runs of the ratio T1 / TN were made in turns.
    """
    if faster is None or many is None:
        return None
    found = propagate(lambda ratio, tn: (ratio * tn + delay) / (tn + delay), faster, many)
    return replace(found, method="Amdahl's law with the delay serial", positive=found.low > 0)


def _serial(one: Estimate | None, many: Estimate | None, ranks: int, delay: float) -> float | None:
    """Returns the serial share; None if the law has none, for ranks slower than one or faster than ideal."""
    if one is None or many is None or ranks < 2:
        return None
    share = serial_fraction(ratio_of(one, many), ranks).value
    return (share * one.value + delay) / (one.value + delay) if 0 <= share <= 1 else None


def _share(one: Estimate | None, delay: float) -> Estimate | None:
    """The delay over the step of one rank that holds it."""
    if one is None or not delay or one.value <= delay:
        return None
    return replace(
        one.through(lambda step: min(1.0, delay / step)), method="delay over the step of one rank", positive=True
    )


def _line(rows: list[Delayed], several: bool) -> Line | None:
    known = [(row.seconds, step) for row in rows if (step := row.many if several else row.one) is not None]
    if len(known) < 3:
        return None
    return fit_line([delay for delay, _ in known], [step.value for _, step in known], spread_of([s for _, s in known]))


def row_cells(found: Delays, one: Delayed) -> tuple[Cell, ...]:
    missing = "not measured"
    many = estimate_cell(one.many, 1e3, mark=found.mark, why_empty=missing)
    law = estimate_cell(one.law, why_empty="two steps without a delay are needed")
    return (
        text_cell(f"{1e3 * one.seconds:g}"),
        estimate_cell(one.one, 1e3, why_empty=missing),
        replace(many, doubt=one.doubt),
        estimate_cell(one.measured, why_empty=missing),
        law,
        estimate_cell(one.share, 100, why_empty="no delay"),
        estimate_cell(most_of(one), why_empty="no delay"),
        number_cell(one.serial, 100, why_empty="the law has none here"),
    )


def most_of(one: Delayed) -> Estimate | None:
    """The speedup that no number of ranks can exceed, since none of them divides the delay."""
    return one.share.through(lambda share: 1 / share, positive=True) if one.share is not None else None
