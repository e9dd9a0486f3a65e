"""The model of a step in H1.2: a fixed part, computing per sample, and communication, against the measured step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scalewise.analysis.estimate import Estimate, propagate
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.fits import ComputeLine, LinkFit
from scalewise.analysis.summary import ArmRow
from scalewise.course.homework1.comparable_rows import FIGURE_WIDTH, computing, link_at, price, row_at, volume
from scalewise.course.measured_arms import COURSE_LEVEL
from scalewise.report.cells import count_cell, estimate_cell, said, said_with_interval
from scalewise.report.document import BarPlot, Cell, Column, Figure, Formula, Part, Table
from scalewise.units import listed, ranks_phrase

MODEL_TABLE, ANATOMY = "h1-2-model", "h1-2-anatomy"
MODEL = Formula(
    typst='T(N) = underbrace(t_0, "fixed") + underbrace(c B / N, "computing") + underbrace(m alpha + V / beta, '
    '"communication")',
    plain="T(N) = t0 (fixed) + c B/N (computing) + m alpha + V/beta (communication)",
    mathml="<mi>T</mi><mo>(</mo><mi>N</mi><mo>)</mo><mo>=</mo><munder><msub><mi>t</mi><mn>0</mn></msub>"
    "<mtext>fixed</mtext></munder><mo>+</mo><munder><mrow><mi>c</mi><mi>B</mi><mo>/</mo><mi>N</mi></mrow>"
    "<mtext>computing</mtext></munder><mo>+</mo><munder><mrow><mi>m</mi><mi>α</mi><mo>+</mo><mi>V</mi><mo>/</mo>"
    "<mi>β</mi></mrow><mtext>communication</mtext></munder>",
)


@dataclass(frozen=True)
class ModelParts:
    """The model's parts for one number of ranks, in seconds, and as the table shows them in ms."""

    ranks: int
    whole: Estimate
    communication: Estimate | None  # measured by training the same steps without it
    fixed_seconds: Estimate
    ideal: Cell  # T(1) / N
    measured: Cell
    fixed: Cell
    computed: Cell
    by_link: Cell
    paid: Cell  # communication as measured
    rest: Cell  # the measured step minus the fixed part, computing, and communication as measured
    over_link: Estimate | None  # communication as measured over that of the bare link

    @property
    def over_cell(self) -> Cell:
        """The measured communication over that of the bare link."""
        return estimate_cell(self.over_link)


def line_of(evidence: Evidence, rows: tuple[ArmRow, ...]) -> ComputeLine | None:
    """Returns computing over the batch, scaled to T(1) of this experiment: minutes pass between the two experiments."""
    found, one = computing(evidence), row_at(rows, 1)
    if found is None or one is None or one.step_seconds is None or not one.samples_per_step:
        return None
    level = one.step_seconds.value / found.at(one.samples_per_step)
    fixed, sample = (part.at(COURSE_LEVEL).times(level) for part in (found.overhead_seconds, found.sample_seconds))
    return replace(found, overhead_seconds=fixed, sample_seconds=sample)


def link_of(evidence: Evidence, rows: tuple[ArmRow, ...]) -> LinkFit | None:
    """Returns the link among the most ranks of these rows, or None."""
    found = link_at(evidence, max((row.ranks for row in rows), default=1))
    return found if isinstance(found, LinkFit) else None


def model_parts(rows: tuple[ArmRow, ...], line: ComputeLine, link: LinkFit | None) -> list[ModelParts]:
    """Returns the parts for every row that has a step."""
    one = row_at(rows, 1)
    found = []
    for row in rows:
        step = row.step_seconds
        if step is None or not row.samples_per_step:
            continue
        own = row.samples_per_step / row.ranks
        fixed, computed = line.overhead_seconds, line.sample_seconds.times(own)
        paid, alone = price(row), row.ranks == 1
        by_link = link.predicted(*volume(row)) if link is not None and not alone else None
        ideal = one.step_seconds.times(1 / row.ranks) if one is not None and one.step_seconds else None
        parts = [fixed, computed, *([paid] if paid else [])]
        rest = propagate(lambda whole, *taken: whole - sum(taken), step.at(COURSE_LEVEL), *parts)
        over = propagate(lambda whole, bare: whole / bare, paid, by_link) if paid and by_link else None
        nobody = "one rank sends nothing to others"
        found.append(
            ModelParts(
                ranks=row.ranks,
                whole=step,
                communication=paid,
                fixed_seconds=fixed,
                ideal=estimate_cell(ideal, 1e3, why_empty="one rank was not measured"),
                measured=estimate_cell(step, 1e3),
                fixed=estimate_cell(fixed, 1e3),
                computed=estimate_cell(computed, 1e3),
                by_link=estimate_cell(by_link, 1e3, why_empty=nobody if alone else "the link could not be fitted"),
                paid=estimate_cell(paid, 1e3, why_empty=nobody if alone else "not measured"),
                rest=estimate_cell(rest, 1e3),
                over_link=over,
            )
        )
    return found


def model_table(parts: Sequence[ModelParts], line: ComputeLine, link: LinkFit | None) -> Table:
    """Returns a table of every part beside the measured step."""
    columns = (
        Column("Ranks N"),
        Column("T(1)/N", "ms"),
        Column("T(N) measured", "ms"),
        Column("Fixed", "ms"),
        Column("Computing", "ms"),
        Column("Communication by the link", "ms"),
        Column("Communication measured", "ms"),
        Column("Not explained", "ms"),
    )
    rows = tuple(
        (count_cell(one.ranks), one.ideal, one.measured, one.fixed, one.computed, one.by_link, one.paid, one.rest)
        for one in parts
    )
    letters = "B: samples of all N ranks. m: messages of a step, V: their bytes."
    rates = (
        f"Link: α {said(estimate_cell(link.alpha_seconds, 1e3), 'ms')} a message, β "
        f"{said(estimate_cell(link.bytes_per_second, 1e-9), 'GB/s')}, from single all-reduces of {len(link.sizes)} "
        f"sizes.{_times_the_link(parts)}"
        if link is not None
        else "The link could not be fitted, so communication by the link is left out."
    )
    notes = (f"{letters} {rates}",)
    caption = (
        "Fixed and computing: the line through one rank's step at batches 32 to 256 (H1.5B), scaled to pass through "
        f"T(1): t₀ {said_with_interval(estimate_cell(line.overhead_seconds, 1e3), 'ms')} and c "
        f"{said_with_interval(estimate_cell(line.sample_seconds, 1e6), 'µs')} a sample. Communication measured: the "
        "step minus the same step without communication. Not explained: T(N) minus fixed, computing and "
        "communication as measured."
    )
    return Table(MODEL_TABLE, "The model's parts against the measured step", columns, rows, notes, caption=caption)


def _times_the_link(parts: Sequence[ModelParts]) -> str:
    """A sentence for the note: how many times the bare link's time was measured for communication."""
    told = [f"{said_with_interval(one.over_cell)} times on {ranks_phrase(one.ranks)}" for one in parts if one.over_link]
    return f" Communication measured is {listed(told)} that by the link." if told else ""


def model_parts_figure(parts: Sequence[ModelParts]) -> Figure | None:
    """Returns the parts as bars."""
    if not parts:
        return None

    def part(name: str, cells: list[Cell]) -> Part:
        return Part(name, tuple(max(0.0, cell.number or 0.0) for cell in cells))

    stacks = (
        part("fixed", [one.fixed for one in parts]),
        part("computing", [one.computed for one in parts]),
        part("communication", [one.paid for one in parts]),
        part("not explained", [one.rest for one in parts]),
    )
    bars = tuple(ranks_phrase(one.ranks) for one in parts)
    caption = (
        "The model's parts; number and line: the measured step with its 95 % interval. Parts below zero are left out."
    )
    plot = BarPlot(
        bars,
        tuple(one for one in stacks if any(one.values)),
        "step time (ms)",
        tuple(one.measured.low or one.measured.number or 0.0 for one in parts),
        tuple(one.measured.high or one.measured.number or 0.0 for one in parts),
        totals=tuple(one.measured.number or 0.0 for one in parts),
    )
    return Figure(ANATOMY, "Where a step's time goes", caption, plot, FIGURE_WIDTH)
