"""Detects debugging that is on in every step: anomaly detection, CUDA_LAUNCH_BLOCKING, TORCH_DISTRIBUTED_DEBUG."""

from collections.abc import Callable
from dataclasses import dataclass

from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.finding import Check, Finding, Replayed, priced_by_time
from scalewise.doctor.queries.times import LEAST_STEPS, MOSTLY
from scalewise.records.examination import PlaceRow, SettingsRow
from scalewise.records.notes import NOWHERE
from scalewise.records.spec import Change

CHECK = Check(
    name="debugging-left-on",
    group="gpu",
    severity="slow",
    detects="Anomaly detection, CUDA_LAUNCH_BLOCKING or TORCH_DISTRIBUTED_DEBUG=DETAIL is on in four of five steps.",
    why="Anomaly detection keeps the stack of every operation and looks for NaN in every gradient, which waits for the "
    "GPU each time. CUDA_LAUNCH_BLOCKING makes the host wait for every kernel, so that nothing overlaps. DETAIL makes "
    "all ranks compare every collective before they enter it.",
    example="torch.autograd.set_detect_anomaly(True)",
    fix="torch.autograd.set_detect_anomaly(False)  # or around the one step that is suspected",
    needs="five backward passes",
    silent="Anomaly detection around a few steps.",
)


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns one finding for each kind of debugging that was on when backward passes began."""
    steps = len(case.windows(LEAST_STEPS))
    rows = case.first.rows(SettingsRow)
    if not rows:
        raise Abstain("torch's switches were not seen")
    kinds = (_anomaly(case, rows), _blocking(), _checked_collectives(case))
    return tuple(
        Finding(
            check=CHECK.name,
            severity="slow",
            sentence=kind.sentence,
            evidence=(f"on in {on} of {steps} steps, when their backward passes began",),
            fix=kind.fix,
            where=kind.where,
            steps_seen=steps,
            change=_CHANGE,
        )
        for kind in kinds
        if (on := _steps_with(rows, kind.on, steps)) >= MOSTLY * steps
    )


@dataclass(frozen=True)
class _Kind:
    """One debugging switch, with the sentence and the fix of its finding."""

    on: Callable[[SettingsRow], bool]
    sentence: str
    fix: str
    where: PlaceRow | None = None


def _anomaly(case: Case, rows: tuple[SettingsRow, ...]) -> _Kind:
    place = next((row.anomaly_place for row in reversed(rows) if row.anomaly), NOWHERE)
    where = case.first.places.get(place)
    fix = f"# leave out: {where.text}" if where else CHECK.fix
    return _Kind(lambda row: row.anomaly, "Anomaly detection is on.", fix, where)


def _blocking() -> _Kind:
    return _Kind(
        lambda row: row.launch_blocking and bool(row.device),
        "CUDA_LAUNCH_BLOCKING is set: the host waits for every kernel.",
        "unset CUDA_LAUNCH_BLOCKING  # in the shell, or leave the line out that sets it",
    )


def _checked_collectives(case: Case) -> _Kind:
    several = case.world_size > 1
    return _Kind(
        lambda row: row.distributed_debug == "DETAIL" and several,
        "TORCH_DISTRIBUTED_DEBUG is DETAIL: all ranks compare every collective before they enter it.",
        "unset TORCH_DISTRIBUTED_DEBUG  # in the shell, or leave the line out that sets it",
    )


_CHANGE = Change("debugging_off")


def _steps_with(rows: tuple[SettingsRow, ...], on: Callable[[SettingsRow], bool], steps: int) -> int:
    """Returns in how many steps a switch was on; a row holds until the next one."""
    until = [row.step for row in rows[1:]] + [steps + 1]
    return sum(max(0, end - row.step) for row, end in zip(rows, until, strict=True) if on(row))


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Prices the finding by the time that a step gains without the debugging."""
    return priced_by_time(finding, replayed, "debugging that was left on")
