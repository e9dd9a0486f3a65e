"""Aids of a search for a mistake that are on in every step: anomaly detection, CUDA_LAUNCH_BLOCKING."""

from scalewise.doctor.case import Case
from scalewise.doctor.check import Check
from scalewise.doctor.device import LEAST_STEPS, MOSTLY
from scalewise.doctor.finding import Finding
from scalewise.doctor.replay import Replayed
from scalewise.doctor.settling import priced_by_time
from scalewise.records.examination import SettingsRow
from scalewise.records.spec import Remedy

CHECK = Check(
    name="debugging-left-on",
    group="gpu",
    severity="slow",
    detects="Anomaly detection or CUDA_LAUNCH_BLOCKING is on in four of five steps or more.",
    why="Anomaly detection keeps the stack of every operation and looks for NaN in every gradient, which waits for the "
    "GPU each time. CUDA_LAUNCH_BLOCKING makes the host wait for every kernel, so that nothing overlaps.",
    example="torch.autograd.set_detect_anomaly(True)",
    fix="torch.autograd.set_detect_anomaly(False)  # or around the one step that is suspected",
    needs="Five backward passes.",
    silent="Anomaly detection around a few steps.",
)


def examine(case: Case) -> tuple[Finding, ...]:
    """By what was set when backward passes began."""
    steps = len(case.windows(LEAST_STEPS))
    rows = case.first.rows(SettingsRow)
    found = []
    anomaly = _steps_with(rows, "anomaly", steps)
    if anomaly >= MOSTLY * steps:
        place = next((row.anomaly_place for row in reversed(rows) if row.anomaly), None)
        where = None if place is None else case.first.places.get(place)
        found.append(
            Finding(
                check=CHECK.name,
                severity="slow",
                sentence=f"Anomaly detection is on in {anomaly} of {steps} steps.",
                evidence=("torch.is_anomaly_enabled() when backward passes began",),
                fix=f"# leave out: {where.text}" if where else CHECK.fix,
                where=where,
                steps_seen=steps,
                remedy=_REMEDY,
            )
        )
    blocking = _steps_with(rows, "launch_blocking", steps)
    if blocking >= MOSTLY * steps and rows[-1].device:
        found.append(
            Finding(
                check=CHECK.name,
                severity="slow",
                sentence="CUDA_LAUNCH_BLOCKING is set: the host waits for every kernel.",
                evidence=(f"the variable is set in {blocking} of {steps} steps, on {rows[-1].device}",),
                fix="unset CUDA_LAUNCH_BLOCKING  # in the shell, or leave the line out that sets it",
                steps_seen=steps,
                remedy=_REMEDY,
            )
        )
    return tuple(found)


_REMEDY = Remedy("debugging_off")


def _steps_with(rows: tuple[SettingsRow, ...], switch: str, steps: int) -> int:
    """In how many steps a switch was on; a row holds until the next one."""
    until = [row.step for row in rows[1:]] + [steps + 1]
    return sum(max(0, end - row.step) for row, end in zip(rows, until, strict=True) if getattr(row, switch))


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """What a step gains without it."""
    return priced_by_time(finding, replayed, "debugging that was left on")
