"""Detects a loop that waits for its data, from measured times only, never from settings."""

from collections.abc import Iterator
from dataclasses import replace

from scalewise.analysis.estimate import level_text
from scalewise.analysis.machine_state import machine_state
from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.finding import Check, Finding, Price, Proof, Replayed, SweepPoint, priced_by_time
from scalewise.doctor.queries.inputs import line_that_made, loader_of, training_loaders, with_arguments
from scalewise.doctor.queries.times import Waiting, copying, loading_of, waiting
from scalewise.records.examination import LoaderRow
from scalewise.records.notes import NOWHERE
from scalewise.records.spec import Change
from scalewise.units import NANO, counted, seconds_text, with_small

LEAST_SHARE = 0.25  # share of the loop iteration
LEAST_NS = 1e6
# While other programs use the cores, fetching takes longer, like everything else: only the quick steps count then.
BUSY_NS = 3e6
LEAST_WINDOWS = 4
MOST_POWER = 6  # 2^5 = 32 workers at most
MOST_BLOCKS = 2 / 3  # share of the blocks that must lie above both limits: one slow stretch is not enough

CHECK = Check(
    name="input-bound",
    group="data",
    severity="slow",
    detects="The loop spends more than a quarter of its time waiting for the DataLoader.",
    why="The device stands idle meanwhile, and more ranks or faster devices change nothing.",
    example="loader = DataLoader(dataset, batch_size=32)  # reading a sample takes 5 ms, a step 2 ms",
    fix="loader = DataLoader(dataset, batch_size=32, num_workers=4, persistent_workers=True)",
    needs=f"{LEAST_WINDOWS} settled steps that are fed by a DataLoader",
    silent="It rests on the time that was waited, never on the number of workers: a loader without workers is fine "
    "when it is quick. The start of an epoch and evaluation are left out.",
)


def examine(case: Case) -> tuple[Finding, ...]:
    """Measures every rank's wait; returns a finding if more than half of the ranks wait in most settled steps."""
    found = {rank.rank: one for rank in case.ranks if (one := _waits(rank)) is not None}
    if not found:
        raise Abstain("no DataLoader feeds training in enough settled steps")
    state = machine_state(case.run)
    quick_ns = BUSY_NS if state.loaded or state.foreign is None else 0.0
    bound = {number: one for number, one in found.items() if _is_bound(one) and one.quick_ns >= quick_ns}
    # A single rank that waits holds up the others: it is a straggler, whose cause that check reports.
    if 2 * len(bound) <= len(found):
        return ()
    return (_finding(case, bound),)


def _waits(rank: RankCase) -> Waiting | None:
    feeding = training_loaders(rank)
    workers = max((row.workers for row in rank.loaders if row.index in feeding), default=0)
    measured = waiting(rank, feeding, max(workers, 1), LEAST_NS, LEAST_SHARE) if feeding else None
    return measured if measured is not None and measured.windows >= LEAST_WINDOWS else None


def _is_bound(one: Waiting) -> bool:
    return one.share > LEAST_SHARE and one.wait_ns > LEAST_NS and one.blocks_above >= MOST_BLOCKS


def _finding(case: Case, bound: dict[int, Waiting]) -> Finding:
    number = max(bound, key=lambda rank: bound[rank].wait_ns)
    worst = bound[number]
    rank = next(rank for rank in case.ranks if rank.rank == number)
    loader = loader_of(rank, worst.loader)
    where = line_that_made(case, loader) if loader is not None and loader.place != NOWHERE else None
    only = {"loader": loader.index} if loader is not None else {}
    wait, whole = seconds_text(worst.wait_ns * NANO), seconds_text(worst.iteration_ns * NANO)
    return Finding(
        check=CHECK.name,
        severity="slow",
        sentence=f"The loop waits {wait} of {whole} per step for its data, {worst.share:.0%} of the time.",
        evidence=(*_evidence(bound, loader), *_spent(case, rank, loader)),
        fix=_fix(case, loader),
        where=where or rank.place(next((batch for window in rank.windows for batch in window.batches), None)),
        price=Price(worst.wait_ns / 1e6, "ms per step", "waiting for data", "measured, median of the settled steps"),
        proof=_proof(case),
        steps_seen=worst.windows,
        change=Change("cached_input"),
        sweep=tuple(Change("workers", {"count": count, **only}) for count in _worth_trying(case, loader)),
    )


def _worth_trying(case: Case, loader: LoaderRow | None) -> list[int]:
    """Returns the numbers of workers to try: 1, 2, 4, ... up to the cores of a rank (at least 2), larger ones first."""
    if loader is None or loader.iterable:
        return []
    machine = case.run.machine
    cores = len(machine.cores) // max(1, len(case.ranks)) if machine is not None else 0
    counts = [2**power for power in range(MOST_POWER) if 2**power <= max(2, cores)]
    return sorted((count for count in counts if count != loader.workers), key=lambda count: count < loader.workers)


def _proof(case: Case) -> Proof:
    """Returns "suspected" for a model on a GPU, which may have had enough work while the host waited."""
    model = case.first.record.model
    return "suspected" if model and any("cuda" in device for device in model.devices) else "observed"


def _evidence(bound: dict[int, Waiting], loader: LoaderRow | None) -> Iterator[str]:
    waits = ", ".join(f"rank {rank} {seconds_text(one.wait_ns * NANO)}" for rank, one in sorted(bound.items()))
    yield f"waiting in DataLoader per step, median: {waits}"
    if loader is not None:
        workers = counted(loader.workers, "worker") if loader.workers else "no workers"
        yield f"the loader has {workers}{', memory is pinned' if loader.pinned else ''}"


def _spent(case: Case, rank: RankCase, loader: LoaderRow | None) -> Iterator[str]:
    """Yields what a batch costs: the dataset, collating samples, pinning, copying."""
    found = loading_of(rank, loader.index) if loader is not None else None
    if found is not None:
        yield f"making one batch takes {found.text()}{found.by_whom()}"
        told = copying(case)
        yield with_small(told)


def _fix(case: Case, loader: LoaderRow | None) -> str:
    if loader is None or loader.workers == 0:
        otherwise = "loader = DataLoader(dataset, num_workers=2, persistent_workers=True, ...)"
        return with_arguments(line_that_made(case, loader), otherwise, num_workers="2", persistent_workers="True")
    more = 2 * loader.workers
    otherwise = f"loader = DataLoader(dataset, num_workers={more}, persistent_workers=True, prefetch_factor=4, ...)"
    made = with_arguments(line_that_made(case, loader), otherwise, num_workers=str(more), persistent_workers="True")
    return f"{made}\n# and, where the cores are all busy: prepare the samples once, before training"


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Prices the finding by the time gained without waiting, or adds the result for a number of workers."""
    if replayed.change.name == "workers":
        return _with_workers(case, finding, replayed)
    settled = priced_by_time(finding, replayed, "waiting for data, against the same batch from memory")
    saved = replayed.saved
    if settled.proof == "replayed" and saved is not None and saved.milliseconds.low < 0.05 * saved.step_milliseconds:
        return replace(settled, proof="suspected")
    return settled


def _with_workers(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Adds the result for one number of workers; the fix names the smallest number that is as good as the best."""
    count, saved = replayed.change.settings["count"], replayed.saved
    named = f"num_workers={count}"
    if replayed.trouble:
        words = f"with {named} the script did not run: {replayed.trouble}"
        return replace(finding, evidence=(*finding.evidence, words))
    if saved is None:
        return finding
    less = saved.milliseconds
    change = f"{abs(less.value):.3g} ms {'less' if less.value > 0 else 'more'}"
    sure = f"{less.low:.3g} to {less.high:.3g} ms less, {level_text(less.level)}"
    words = f"replayed with {named}, a round of the loop takes {change} ({sure})"
    tried = (*finding.tried, SweepPoint(replayed.change, less))
    found = replace(finding, evidence=(*finding.evidence, words), tried=tried)
    helps = [one for one in tried if one.milliseconds.low > 0]
    if not helps:
        return found
    best = max(one.milliseconds.value for one in helps)
    enough = min(int(one.change.settings["count"]) for one in helps if one.milliseconds.high >= best)
    return replace(found, fix=_workers_fix(finding, enough))


def _workers_fix(finding: Finding, count: int) -> str:
    otherwise = f"loader = DataLoader(dataset, num_workers={count}, persistent_workers=True, ...)"
    made = with_arguments(finding.where, otherwise, num_workers=str(count), persistent_workers="True")
    return f"{made}  # enough by the replays"
