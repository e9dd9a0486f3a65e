"""Detects an incomplete window of an epoch that is added to the first window of the next, which is then too large."""

from scalewise.doctor.case import Case
from scalewise.doctor.finding import Check, Finding, Price
from scalewise.doctor.queries.accumulation import Accumulation, EpochEnd, ends_of, whole_windows_agree
from scalewise.doctor.queries.source import loader_name, micro_batches_text, optimizer_name

CHECK = Check(
    name="window-leaks",
    group="accumulation",
    severity="wrong",
    detects="Gradients left over at the end of an epoch go into the next epoch's first step, beside a full window.",
    why="That step's gradient is a sum over more micro-batches than it was divided by, across an evaluation or a change"
    " of the learning rate; those of the last epoch are lost.",
    example="""for epoch in range(epochs):
    for i, (x, y) in enumerate(loader):  # 10 batches
        (criterion(model(x), y) / 4).backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()""",
    fix="""for i, (x, y) in enumerate(loader):
    (criterion(model(x), y) / 4).backward()
    if (i + 1) % 4 == 0 or i + 1 == len(loader):
        optimizer.step()
        optimizer.zero_grad()""",
    needs="a DataLoader that comes to its end at least once before the last epoch",
    silent="Loops that count micro-batches through all epochs: no window is larger than the others.",
)


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns a finding for windows that contain an epoch's end and are larger than all others."""
    found, ends = ends_of(case)
    leaked = tuple(end for end in ends if end.fate == "leaked")
    if not leaked or not whole_windows_agree(found) or any(end.fate == "carried" for end in ends):
        return ()
    return (_finding(found, leaked, sum(end.micro_batches for end in ends if end.fate == "left")),)


def _finding(found: Accumulation, leaked: tuple[EpochEnd, ...], left: int) -> Finding:
    rank, size = found.rank, found.size
    worst = max(leaked, key=lambda end: end.update.size)
    step = worst.update.steps[0]
    backward = rank.place(worst.update.backwards[0])
    optimizer = optimizer_name(rank, step)
    loader = loader_name(rank, next(iter(found.windows[0].micro_batches[0].batches), None))
    times = worst.update.size / size
    evidence = [
        f"micro-batches in the windows over an epoch's end: {', '.join(str(end.update.size) for end in leaked[:8])}; "
        f"in all others: {size}",
        f"{', '.join(str(end.micro_batches) for end in leaked[:8])} of them left over from the epoch before",
    ]
    if left:
        evidence.append(f"{micro_batches_text(left)} after the last step of the script, never applied")
    return Finding(
        check=CHECK.name,
        severity=CHECK.severity,
        sentence=f"The first step of an epoch sums {worst.update.size} micro-batches, not {size}: "
        f"{micro_batches_text(worst.micro_batches)} left over from the epoch before.",
        evidence=tuple(evidence),
        fix=f"if (i + 1) % {size} == 0 or i + 1 == len({loader}):  # the last window of an epoch, however short\n"
        f"    {optimizer}.step()\n    {optimizer}.zero_grad()",
        where=rank.place(step),
        also=(backward,) if backward is not None else (),
        price=Price(times, "times", "the usual sum of gradients, in the first step of an epoch", "counted"),
        steps_seen=len(found.updates),
    )
