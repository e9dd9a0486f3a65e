"""Detects gradients that are all-reduced in every micro-batch of a window; only the last reduction is needed."""

from scalewise.doctor.case import Case
from scalewise.doctor.finding import Check, Finding, Replayed
from scalewise.doctor.queries.averaging import needless_bytes, oversynchronised, settle_by_time
from scalewise.doctor.queries.source import text_of, wrapper_name
from scalewise.records.spec import Change

CHECK = Check(
    name="sync-every-micro-batch",
    group="accumulation",
    severity="slow",
    detects="DDP all-reduces the gradients in every micro-batch, not once per optimizer step.",
    why="The reductions before the last are thrown away by it: it reduces the whole accumulated gradient again.",
    example="""for i, (x, y) in enumerate(loader):
    loss = criterion(model(x), y) / K
    loss.backward()
    if (i + 1) % K == 0:
        optimizer.step()
        optimizer.zero_grad()""",
    fix="""for i, (x, y) in enumerate(loader):
    last = (i + 1) % K == 0
    with nullcontext() if last else model.no_sync():
        loss = criterion(model(x), y) / K
        loss.backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()""",
    needs="a DistributedDataParallel model on two ranks or more, and two optimizer steps",
    silent="One batch seen twice per step (SAM), optimizers that take turns, gradients zeroed in between; FSDP, where"
    " no_sync() costs memory.",
)


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns a finding if several micro-batches per window reduce and no_sync() is rarely or never entered."""
    over = oversynchronised(case)
    if over is None or over.entered >= len(over.windows) / 2:
        return ()
    rank, size = over.found.rank, over.found.size
    forward = rank.place(over.windows[0].forward)
    backward = rank.place(over.windows[0].backwards[0])
    model = wrapper_name(rank, over.wrapper)
    lines = dict.fromkeys([text_of(forward, "loss = ..."), text_of(backward, "loss.backward()")])
    body = "\n".join(f"    {line}" for line in lines)
    last = f"(i + 1) % {size} == 0" if over.found.steady else "..."
    fix = (
        f"last = {last}  # the micro-batch right before the optimizer's step: it alone reduces\n"
        f"with contextlib.nullcontext() if last else {model}.no_sync():\n{body}"
    )
    evidence = [
        f"{over.syncs} of {size} micro-batches per optimizer step reduce gradients, in {len(over.windows)} of "
        f"{len(over.found.windows)} steps that accumulate",
        f"no_sync() was entered in {over.entered} of them",
    ]
    if over.reductions is not None:
        evidence.insert(1, f"{over.reductions}, on each rank")
    return (
        Finding(
            check=CHECK.name,
            severity=CHECK.severity,
            sentence=f"Gradients are all-reduced {over.syncs} times per optimizer step, once per micro-batch; the last "
            "time would do.",
            evidence=tuple(evidence),
            fix=fix,
            where=backward,
            also=(forward,) if forward is not None and forward != backward else (),
            price=needless_bytes(over),
            steps_seen=len(over.found.updates),
            change=Change("no_sync", {"window": size}) if over.found.steady else None,
        ),
    )


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Prices the finding in milliseconds."""
    return settle_by_time(finding, replayed)
