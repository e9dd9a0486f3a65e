"""Detects constant buffers that are sent to all ranks in every forward pass."""

from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.finding import Check, Finding, Price, Replayed, priced_by_time
from scalewise.doctor.queries.source import assigned, text_of
from scalewise.records.examination import PlaceRow, WrapperRow
from scalewise.records.spec import Change

CHECK = Check(
    name="needless-buffer-broadcast",
    group="ddp",
    severity="slow",
    detects="Buffers of more than 1 MB are broadcast before each training forward pass, and never change.",
    why="DDP sends rank 0's buffers to all ranks in each forward pass, which waits for them. That is for running "
    "statistics; masks, tables and position codes are the same everywhere from the start.",
    example='net.register_buffer("mask", torch.ones(4096, 4096).tril())\nmodel = DDP(net)',
    fix="model = DDP(net, broadcast_buffers=False)",
    needs="buffers of more than 1 MB in a DistributedDataParallel, compared over two forward passes or more",
    silent="A buffer that changed in any forward pass on any rank: BatchNorm, moving averages, codebooks.",
)
LEAST_BYTES = 1_000_000
LEAST_CHECKS = 2
CHANGE = Change("ddp_option", {"broadcast_buffers": False})


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns one finding per wrapper whose large buffers never change."""
    return tuple(
        _finding(case, row, checks)
        for row in case.ddp_models()
        if row.options.get("broadcast_buffers") and row.buffer_bytes > LEAST_BYTES and len(row.ranks) > 1
        if (checks := _constant_for(case, row))
    )


def _constant_for(case: Case, wrapper: WrapperRow) -> int:
    """Returns over how many forward passes no rank's buffers changed; 0 if some did."""
    uses = [use for rank in case.ranks for use in rank.uses if use.wrapper == wrapper.index]
    if any(use.buffers_changed for use in uses):
        return 0
    checks = min((use.buffer_checks for use in uses), default=0)
    if checks < LEAST_CHECKS or len(uses) < len(case.ranks):
        raise Abstain(f"needs {LEAST_CHECKS} forward passes of which all buffers were compared, saw {checks}")
    return checks


def _finding(case: Case, wrapper: WrapperRow, checks: int) -> Finding:
    where = case.first.places.get(wrapper.place)
    windows = case.windows(1)
    forwards = sum(note.wrapper == wrapper.index and note.sync for window in windows for note in window.forwards)
    size = wrapper.buffer_bytes
    return Finding(
        check=CHECK.name,
        severity="slow",
        sentence=f"{size / 1e6:.3g} MB of buffers that never change are broadcast in every training forward pass.",
        evidence=(
            f"changed in 0 of {checks} forward passes that were compared, on every rank",
            f"{forwards} forward passes sent {forwards * size / 1e6:.3g} MB to each of the other ranks",
        ),
        fix=_fix(where),
        where=where,
        price=Price(
            forwards * size / len(windows), "bytes", "sent per step to each other rank", "computed from the buffers"
        ),
        steps_seen=checks,
        change=CHANGE,
    )


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Prices the finding by the time of the broadcasts."""
    return priced_by_time(finding, replayed, "broadcasting buffers that do not change")


def _fix(where: PlaceRow | None) -> str:
    text = text_of(where, "")
    if text.endswith(")") and text.count("(") == text.count(")") and "broadcast_buffers" not in text:
        return f"{text[:-1]}, broadcast_buffers=False)"
    return f"{assigned(where, 'model')} = DistributedDataParallel(net, broadcast_buffers=False)"
