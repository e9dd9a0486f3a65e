"""H1.4 on the page: DataParallel against DDP, device by device."""

from scalewise.analysis.summary import ArmRow
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework1.devices import DDP, DP, Comparison, DeviceUse, comparison
from scalewise.explain.homework1.h1_4 import TABLE, answers
from scalewise.report.cells import empty_cell, estimate_cell, mark_of, number_cell, text_cell
from scalewise.report.document import Cell, Column, Mark, Section, Table

SUITES = ("homework1",)
ORDER = 40
MIB = 2**-20


def build(evidence: Evidence) -> Section:
    """Table and answers."""
    found = comparison(evidence)
    return Section("h1-4", "H1.4 DataParallel and DistributedDataParallel", (_table(found), *answers(evidence)))


def _table(found: Comparison) -> Table:
    columns = (
        Column("method", numeric=False),
        Column("device", numeric=False),
        Column("utilisation", "%"),
        Column("memory/GPU", "MiB"),
        Column("time/step", "ms"),
        Column("step-time variance", "ms²"),
        Column("sd", "ms"),
        Column("sd / mean", "%"),
    )
    rows = [_row(found, one, index) for method in (DP, DDP) for index, one in enumerate(_uses(found, method))]
    return Table(
        TABLE,
        "DataParallel against DDP",
        columns,
        tuple(rows),
        _notes(found),
        tuple(_names(found, method) for method in (DP, DDP) for _ in _uses(found, method)),
    )


def _uses(found: Comparison, method: str) -> tuple[DeviceUse, ...]:
    """At least one row for each method, so that a hole is seen."""
    return found.uses(method) or (DeviceUse(method, "all", None, "", None, ""),)


def _arm(found: Comparison, method: str) -> ArmRow | None:
    return found.dp if method == DP else found.ddp


def _names(found: Comparison, method: str) -> tuple[str, ...]:
    arm = _arm(found, method)
    return arm.run_names if arm else ()


def _mark(found: Comparison, method: str) -> Mark:
    return mark_of(_arm(found, method), emulated=found.emulated and method == DP)


def _row(found: Comparison, use: DeviceUse, index: int) -> tuple[Cell, ...]:
    arm, mark = _arm(found, use.method), _mark(found, use.method)
    head = (
        text_cell(use.method if index == 0 else ""),
        text_cell(use.device),
        number_cell(use.utilisation, 100, mark=mark, why_empty="not recorded", note=use.utilisation_by),
        number_cell(use.memory_bytes, MIB, mark=mark, why_empty="not recorded", note=use.memory_by),
    )
    if index:
        return (*head, *(empty_cell("the same step as above", mark) for _ in range(4)))
    step = arm.step_seconds if arm else None
    spread = arm.variation if arm else None
    deviation = spread * step.value if spread is not None and step is not None else None
    return (
        *head,
        estimate_cell(step, 1e3, mark=mark, why_empty="no usable run"),
        number_cell(None if deviation is None else deviation**2, 1e6, mark=mark, why_empty="no usable run"),
        number_cell(deviation, 1e3, mark=mark, why_empty="no usable run"),
        number_cell(spread, 100, mark=mark, why_empty="no usable run"),
    )


def _notes(found: Comparison) -> tuple[str, ...]:
    by = {use.method: (use.utilisation_by, use.memory_by) for use in found.devices}
    notes = [f"{method}: utilisation by {used}, memory by {held}." for method, (used, held) in by.items() if used]
    if found.emulated:
        notes.append("Emulated: logical devices stand for GPUs; their times are those of shared hardware.")
    return tuple(notes)
