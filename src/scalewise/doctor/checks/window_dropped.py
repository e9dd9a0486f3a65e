"""Detects an incomplete window at the end of an epoch whose gradients are thrown away, never applied."""

from scalewise.doctor.case import Case
from scalewise.doctor.finding import Check, Finding, Price
from scalewise.doctor.queries.accumulation import Accumulation, EpochEnd, ends_of, epochs_ended, micro_batches
from scalewise.doctor.queries.source import loader_name, micro_batches_text, optimizer_name

CHECK = Check(
    name="window-dropped",
    group="accumulation",
    severity="wrong",
    detects="At the end of an epoch the gradients of the last micro-batches are thrown away, not applied.",
    why="These batches are computed for nothing and never learned from; with shuffling off they are always the same.",
    example="""for epoch in range(epochs):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):  # 10 batches
        (criterion(model(x), y) / 4).backward()
        if (i + 1) % 4 == 0:  # the last two batches never get here
            optimizer.step()
            optimizer.zero_grad()""",
    fix="""for i, (x, y) in enumerate(loader):
    (criterion(model(x), y) / 4).backward()
    if (i + 1) % 4 == 0 or i + 1 == len(loader):
        optimizer.step()
        optimizer.zero_grad()""",
    needs="a DataLoader that comes to its end",
    silent="Loops that count micro-batches through all epochs: the next epoch completes the window.",
)


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns a finding for incomplete windows that end in zero_grad(), or with the script."""
    found, ends = ends_of(case)
    lost = tuple(end for end in ends if end.fate in ("dropped", "left"))
    thrown_away = any(end.fate == "dropped" for end in lost)
    # Micro-batches left after the last of several epochs may be the end of a loop that counts through all epochs.
    if not lost or len(ends) > 2 * len(lost) or not (thrown_away or epochs_ended(found) == 1):
        return ()
    return (_finding(found, lost),)


def _finding(found: Accumulation, dropped: tuple[EpochEnd, ...]) -> Finding:
    rank, size = found.rank, found.size
    lost, all_of_them, count = sum(end.micro_batches for end in dropped), micro_batches(found), epochs_ended(found)
    backward = rank.place(dropped[0].update.backwards[0])
    step = found.updates[0].steps[0]
    zero = next((rank.place(end.zero) for end in dropped if end.zero is not None), None)
    optimizer = optimizer_name(rank, step)
    loader = loader_name(rank, next(iter(found.windows[0].micro_batches[0].batches), None))
    ending = "zero_grad() follows" if zero is not None else "the script ends with them"
    return Finding(
        check=CHECK.name,
        severity=CHECK.severity,
        sentence=f"At the end of an epoch {micro_batches_text(dropped[0].micro_batches)} never applied: the window of "
        f"{size} is not full when the loader ends, and {ending}.",
        evidence=(
            f"{lost} of {all_of_them} micro-batches were thrown away, at {len(dropped)} of {count} epoch ends",
            f"micro-batches per window: {size}; left over at each end: "
            + ", ".join(str(end.micro_batches) for end in dropped[:8]),
        ),
        fix=f"if (i + 1) % {size} == 0 or i + 1 == len({loader}):  # the last window of an epoch, however short\n"
        f"    {optimizer}.step()\n    {optimizer}.zero_grad()",
        where=zero or rank.place(step),
        also=(backward,) if backward is not None else (),
        price=Price(lost / all_of_them, "share", "of the micro-batches, computed for nothing", "counted"),
        steps_seen=len(found.updates),
    )
