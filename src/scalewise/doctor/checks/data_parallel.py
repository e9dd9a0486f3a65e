"""Detects nn.DataParallel: one process issues all work, where DistributedDataParallel has one for each device."""

from scalewise.doctor.case import Case
from scalewise.doctor.finding import Check, Finding, Price
from scalewise.records.examination import WrapperRow
from scalewise.units import counted

CHECK = Check(
    name="data-parallel",
    group="ddp",
    severity="slow",
    detects="The model is wrapped in torch.nn.DataParallel.",
    why="One process sends the weights to every device in each forward pass and collects the outputs on the first "
    "one. Threads of one interpreter drive all devices. DistributedDataParallel sends gradients only, while backward "
    "still computes.",
    example="model = nn.DataParallel(net)",
    fix='dist.init_process_group("nccl")\nmodel = DistributedDataParallel(net, device_ids=[local_rank])',
    needs="nothing more than the wrapper",
    silent="DataParallel that is never called in training.",
)


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns one finding per wrapper that is used in training."""
    rank = case.first
    used = {note.wrapper for window in (*rank.windows, rank.rest) for note in window.forwards}
    return tuple(_finding(case, row) for row in rank.wrappers if row.wrapper == "DataParallel" and row.index in used)


def _finding(case: Case, wrapper: WrapperRow) -> Finding:
    devices = wrapper.options.get("devices")
    count = devices if isinstance(devices, int) else 0
    windows = case.first.windows
    forwards = sum(note.wrapper == wrapper.index for window in windows for note in window.forwards)
    copied = wrapper.parameter_bytes * (count - 1) * forwards / max(1, len(windows))
    seen = f"{forwards} training forward passes in {len(windows)} steps"
    if count > 1:
        sentence = (
            f"nn.DataParallel copies {copied / 1e6:.3g} MB of weights to {count - 1} other "
            f"device{'s' if count > 2 else ''} in every step, from one process."
        )
    else:
        sentence = "The model is wrapped in nn.DataParallel, which has no second device here and only adds a call."
    return Finding(
        check=CHECK.name,
        severity="slow" if count > 1 else "note",
        sentence=sentence,
        evidence=(
            seen,
            f"{counted(count, 'device')}, {wrapper.parameter_bytes / 1e6:.3g} MB of parameters",
        ),
        fix='# started by torchrun --nproc_per_node=N\ndist.init_process_group("nccl")\n'
        'local_rank = int(os.environ["LOCAL_RANK"])\n'
        "model = DistributedDataParallel(net.to(local_rank), device_ids=[local_rank])",
        where=case.first.places.get(wrapper.place),
        price=Price(copied, "bytes", "of weights copied per step", "computed from the parameters")
        if copied > 0
        else None,
        steps_seen=len(windows),
    )
