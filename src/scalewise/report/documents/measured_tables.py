"""The tables of what was measured, for documents and reports: what a step takes, where it goes, use of devices."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from scalewise.analysis.scaling import preferred_communication
from scalewise.analysis.series import PHASES
from scalewise.analysis.summary import ArmRow, ExperimentAnalysis
from scalewise.analysis.utilisation import Share, Utilisation
from scalewise.plan.words import short_text, value_text
from scalewise.report.cells import count_cell, empty_cell, estimate_cell, mark_of, number_cell, text_cell
from scalewise.report.document import EMPTY, Cell, Column, Mark, Table
from scalewise.units import significant, three_digits

MARKS: tuple[tuple[Mark, str], ...] = (
    ("oversubscribed", "more ranks than shares of cores; not scaling"),
    ("emulated", "devices that this machine does not have; not scaling"),
    ("missing", "not finished; run the same command again to continue"),
)
SHORT_PHASES = {"data": "data", "forward": "forw.", "backward": "backw.", "optimizer": "optim.", "rest": "rest"}


def any_scaled(rows: Sequence[ArmRow]) -> bool:
    """Tells whether any arm has another arm as its base."""
    return any(row.scaling.base and row.scaling.base != row.label for row in rows)


def steps_table(experiment: ExperimentAnalysis) -> Table:
    """Returns the table with the step of each arm, its throughput, and how it scales."""
    unit, scale = _step_unit(experiment.rows)
    scaled = any_scaled(experiment.rows)
    columns = [
        *_arm_columns(experiment),
        Column("step", unit, short="step", within="share", unit_beside=True),
        Column("throughput", "samples/s", short="samples/s", within="none"),
    ]
    if scaled:
        columns += [
            Column("speedup", within="half"),
            Column("efficiency", "%", short="effic.", within="none", unit_beside=True),
            Column("serial fraction", short="serial", within="none", extra=1),
        ]
    return Table(
        id=f"{experiment.name}-steps",
        title="Step time and throughput, medians with 95 % intervals",
        columns=tuple(columns),
        rows=tuple((*_arm_cells(row, experiment), *_step_cells(row, scale, scaled)) for row in experiment.rows),
        marks=MARKS,
        runs=tuple(row.run_names for row in experiment.rows),
    )


def _step_cells(row: ArmRow, scale: float, scaled: bool) -> Iterator[Cell]:
    mark, unseen = mark_of(row), "samples per step were not seen"
    yield _short(estimate_cell(row.step_seconds, scale, mark=mark, why_empty=row.reason), significant)
    yield _short(estimate_cell(row.samples_per_second, mark=mark, why_empty=row.reason or unseen), "{:,.0f}".format)
    if not scaled:
        return
    one = row.scaling
    if one.base == row.label and one.speedup is not None:
        yield from (Cell("1", 1.0, mark=mark, short="base"), Cell("100", 100.0, mark=mark, short=EMPTY))
    else:
        why = row.reason or one.refusal
        yield _short(estimate_cell(one.speedup, mark=mark, why_empty=why), "{:.2f}".format)
        yield _short(estimate_cell(one.efficiency, 100, mark=mark, why_empty=why), "{:.0f}".format)
    serial = estimate_cell(one.serial_fraction, mark=mark, why_empty="only strong scaling over more ranks has one")
    yield _short(serial, "{:.2f}".format)


def _short(cell: Cell, written: Callable[[float], str]) -> Cell:
    """Returns the cell with its number as a terminal shows it: to the same place in the whole column."""
    return cell if cell.number is None else replace(cell, short=written(cell.number))


def phases_table(experiment: ExperimentAnalysis) -> Table:
    """Returns the table of the parts of a step and how much it varies; all its times have one unit."""
    rows = experiment.rows
    unit, scale = _step_unit(rows)
    columns = [*_arm_columns(experiment)]
    columns += [Column(phase, unit, short=SHORT_PHASES[phase]) for phase in PHASES]
    columns[-len(PHASES)] = Column(PHASES[0], unit, short=f"{unit}: {SHORT_PHASES[PHASES[0]]}")
    communicates = any(communication_method(row) for row in rows)
    columns += [Column("communication", unit, short="comm.", within="none")] if communicates else []
    columns += [Column("skew", unit, short="skew"), Column("varies", "%", short="vary", unit_beside=True)]
    return Table(
        id=f"{experiment.name}-phases",
        title="Where the time of a step goes, mean over ranks",
        columns=tuple(columns),
        rows=tuple((*_arm_cells(row, experiment), *_phase_cells(row, scale, communicates)) for row in rows),
        runs=tuple(row.run_names for row in rows),
    )


def _phase_cells(row: ArmRow, scale: float, communicates: bool) -> Iterator[Cell]:
    mark = mark_of(row)
    for phase in PHASES:
        yield _time_cell(row.phase_seconds.get(phase), scale, mark)
    if communicates:
        chosen = preferred_communication(row.communication, row.change)
        yield _time_cell(chosen.seconds.value if chosen else None, scale, mark, chosen.method if chosen else "")
    yield _time_cell(row.skew_seconds if row.ranks > 1 else None, scale, mark, "slowest less fastest rank")
    if row.variation is None:
        yield empty_cell(row.reason, mark)
    else:
        varies = 100 * row.variation
        yield Cell(f"{varies:.0f}", varies, mark=mark, note="standard deviation over mean of a run's steps")


def communication_method(row: ArmRow) -> str:
    """Returns the method by which the row's communication is told; empty if it is not told."""
    chosen = preferred_communication(row.communication, row.change)
    return chosen.method if chosen else ""


def _time_cell(seconds: float | None, scale: float, mark: Mark, note: str = "") -> Cell:
    """Returns a time without an interval, to a hundredth of the unit at most, as nothing here is known better."""
    if seconds is None:
        return empty_cell("", mark)
    return Cell(three_digits(seconds * scale) if seconds else "0", seconds * scale, mark=mark, note=note)


def _step_unit(rows: Sequence[ArmRow]) -> tuple[str, float]:
    """Returns the unit of all steps of a table, and how many of it are a second."""
    longest = max((row.step_seconds.value for row in rows if row.step_seconds), default=1.0)
    return ("ms", 1e3) if longest >= 1e-3 else ("us", 1e6)


def _arm_columns(experiment: ExperimentAnalysis) -> list[Column]:
    changed = [Column("changed", numeric=False)] if _changed(experiment) else []
    return [*(Column(axis, numeric=False) for axis in experiment.axes), *changed, Column("ranks")]


def _arm_cells(row: ArmRow, experiment: ExperimentAnalysis) -> list[Cell]:
    cells = [text_cell(value_text(row.axes[axis]) if axis in row.axes else EMPTY) for axis in experiment.axes]
    if _changed(experiment):
        plain = row.change == "none"
        cells.append(Cell(EMPTY) if plain else Cell(row.change.replace("_", " "), short=short_text(row.change)))
    return [*cells, count_cell(row.ranks)]


def _changed(experiment: ExperimentAnalysis) -> bool:
    return any(row.change != "none" for row in experiment.rows)


def use_table(experiment: ExperimentAnalysis) -> Table | None:
    """Returns the table of how well the arms use their devices; None if no number of it is known."""
    rows = experiment.utilisation
    work_unit, work_scale = _unit("flop", (row.flops_per_step for row in rows))
    rate_unit, rate_scale = _unit(
        "flop/s", (row.peak_flops_per_second or row.achieved_flops_per_second for row in rows)
    )
    share: Callable[[str, str], Column] = lambda title, short: Column(  # noqa: E731
        title, "%", short=short, within="none", unit_beside=True
    )
    columns = (
        Column("use of the device", numeric=False),
        Column("work of a step", work_unit, short=f"{work_unit}/step"),
        Column("achieved", rate_unit, short=rate_unit),
        Column("measured peak", rate_unit, short="peak"),
        share("MFU", "MFU"),
        share("device busy", "busy"),
        share("bandwidth, at least", "bandw."),
        Column("launches", extra=1),
    )
    found = tuple(tuple(_use_cells(row, work_scale, rate_scale)) for row in rows)
    if not any(cell.number is not None for cells in found for cell in cells):
        return None
    return Table(
        id=f"{experiment.name}-utilisation",
        title="Use of the device, of a rank",
        columns=columns,
        rows=found,
        runs=tuple((row.run,) for row in rows),
    )


def _use_cells(row: Utilisation, work_scale: float, rate_scale: float) -> Iterator[Cell]:
    yield text_cell(row.arm)
    counted = "counted operator by operator, by " + (row.flops_by or "nothing")
    yield number_cell(row.flops_per_step, work_scale, why_empty=row.mfu.reason, note=counted)
    yield number_cell(row.achieved_flops_per_second, rate_scale, why_empty=row.mfu.reason)
    yield number_cell(row.peak_flops_per_second, rate_scale, why_empty=row.mfu.reason)
    yield from map(_share_cell, (row.mfu, row.busy, row.bandwidth))
    yield count_cell(row.launches) if row.launches is not None else empty_cell(row.no_profile, "measured")


def _share_cell(share: Share) -> Cell:
    if share.value is None:
        return empty_cell(share.reason, "measured")
    if share.interval is None:
        cell = number_cell(share.value, 100, note=share.method)
    else:
        cell = estimate_cell(share.interval, 100, note=share.method)
    return _short(cell, "{:.0f}".format if share.value >= 0.0995 else "{:.1f}".format)


def _unit(name: str, values: Iterator[float | None]) -> tuple[str, float]:
    """Returns the unit in which the largest value is no less than one, with its scale."""
    largest = max(filter(None, values), default=1e9)
    prefix, size = next((one for one in (("T", 1e12), ("G", 1e9)) if largest >= one[1]), ("M", 1e6))
    return f"{prefix}{name}", 1 / size


def use_notes(experiment: ExperimentAnalysis) -> Iterator[str]:
    """Yields why shares are not given, and what the columns of use mean."""
    rows = experiment.utilisation
    yield from use_refusals(rows)
    precise = dict.fromkeys(_precisions(row) for row in rows if row.flops_by_precision)
    yield (
        "Work: floating-point operations that the model needs in a rank's step, counted in one inspected step"
        f"{f' ({next(iter(precise))})' if len(precise) == 1 else ''}; peak: measured here for that precision; "
        "MFU: the work over the time of the timed steps and the peak; bandwidth: at least this share of the measured "
        "copy rate."
    )
    for row in rows:
        if row.recomputed_flops and row.flops_per_step:
            more = 100 * row.recomputed_flops / row.flops_per_step
            yield f"{row.arm}: recomputation adds {more:.0f} % operations, which are not in MFU."
    if any(row.flops_by == "profile" for row in rows):
        yield "Operations were counted from the profile, in which recomputation cannot be told apart."


def use_refusals(rows: Sequence[Utilisation]) -> Iterator[str]:
    """Yields each reason for a missing value once, with all the values that it explains."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        for name, share in (("MFU", row.mfu), ("busy share", row.busy), ("bandwidth", row.bandwidth)):
            if share.value is None and share.reason:
                found.setdefault(share.reason, {}).setdefault(name, []).append(row.arm)
        if row.no_profile:
            found.setdefault(row.no_profile, {}).setdefault("families", []).append(row.arm)
    for reason, arms in found.items():
        whose = {name: "any arm" if 1 < len(rows) == len(some) else "; ".join(some) for name, some in arms.items()}
        groups: dict[str, list[str]] = {}
        for name, of in whose.items():
            groups.setdefault(of, []).append(name)
        missing = ", ".join(f"{' or '.join(names)} of {of}" for of, names in groups.items())
        yield f"No {missing}: {reason}."


def _precisions(row: Utilisation) -> str:
    total = sum((row.flops_by_precision or {}).values())
    parts = sorted((row.flops_by_precision or {}).items(), key=lambda item: -item[1])
    if len(parts) == 1:
        return parts[0][0]
    return ", ".join(f"{name} {100 * flops / total:.1f} %" for name, flops in parts)
