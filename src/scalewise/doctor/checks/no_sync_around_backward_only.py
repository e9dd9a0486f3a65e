"""Detects `no_sync()` around backward only, which has no effect: DDP decides in forward whether to reduce."""

from scalewise.doctor.case import Case
from scalewise.doctor.finding import Check, Finding, Replayed
from scalewise.doctor.queries.averaging import needless_bytes, oversynchronised, settle_by_time
from scalewise.doctor.queries.source import text_of, wrapper_name
from scalewise.records.notes import NoSyncNote
from scalewise.records.spec import Change

CHECK = Check(
    name="no-sync-around-backward-only",
    group="accumulation",
    severity="slow",
    detects="no_sync() is entered, but after the forward pass, so that every micro-batch still reduces gradients.",
    why="DDP reads the flag in forward, where it arms its reducer; around backward alone no_sync() changes nothing.",
    example="""loss = criterion(model(x), y) / K
with model.no_sync() if not last else nullcontext():
    loss.backward()""",
    fix="""with model.no_sync() if not last else nullcontext():
    loss = criterion(model(x), y) / K
    loss.backward()""",
    needs="a DistributedDataParallel model on two ranks or more, and two optimizer steps",
    silent="no_sync() around forward alone: it works.",
)


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns a finding if several micro-batches per window reduce although no_sync() is entered."""
    over = oversynchronised(case)
    if over is None or over.entered < len(over.windows) / 2:
        return ()
    rank, size = over.found.rank, over.found.size
    forward, backward = rank.place(over.windows[0].forward), rank.place(over.windows[0].backwards[0])
    entered = [note for update in over.windows for note in update.notes if isinstance(note, NoSyncNote)]
    region = rank.place(entered[0])
    model = wrapper_name(rank, over.wrapper)
    lines = dict.fromkeys([text_of(forward, "loss = ..."), text_of(backward, "loss.backward()")])
    body = "\n".join(f"    {line}" for line in lines if line != text_of(region, ""))
    evidence = [
        f"no_sync() was entered {len(entered)} times, in {over.entered} of {len(over.found.windows)} steps that "
        "accumulate, each time after the forward pass it was meant for",
        f"{over.syncs} of {size} micro-batches per optimizer step reduce gradients all the same",
    ]
    if over.reductions is not None:
        evidence.append(f"{over.reductions}, on each rank")
    return (
        Finding(
            check=CHECK.name,
            severity=CHECK.severity,
            sentence=f"no_sync() has no effect: it is entered after the forward pass, and gradients are all-reduced "
            f"{over.syncs} times per optimizer step.",
            evidence=tuple(evidence),
            fix=f"{text_of(region, f'with {model}.no_sync():')}  # forward belongs inside\n{body}",
            where=region or backward,
            also=tuple(place for place in (forward, backward) if place is not None and place != region),
            price=needless_bytes(over),
            steps_seen=len(over.found.updates),
            change=Change("no_sync", {"window": size}) if over.found.steady else None,
        ),
    )


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Prices the finding in milliseconds."""
    return settle_by_time(finding, replayed)
