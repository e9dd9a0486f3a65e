"""Turns a run's rows into arrays: one entry per iteration after warm-up, in seconds, aligned over the ranks."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalewise.analysis.estimate import Floats, RunMedian, run_median
from scalewise.analysis.relation import ALONE, Relation, relation_of
from scalewise.records.draft import REASONS
from scalewise.records.load import Run
from scalewise.records.rows import StepRow
from scalewise.units import NANO

Indices = NDArray[np.int64]


def iteration_starts(optimizers: Indices) -> tuple[Indices, int]:
    """Returns the index of the first step of each iteration, and the number of steps in whole iterations.

    An iteration ends with a step of the optimizer that steps rarest; if several are equally rare, with the one that
    comes last when every optimizer has stepped once. Optimizers used one after the other, rather than in turns, do not
    make a pattern: there every step is an iteration.
    """
    count = len(optimizers)
    alone = np.arange(count), count
    kinds, first, numbers = np.unique(optimizers, return_index=True, return_counts=True)
    if len(kinds) < 2:
        return alone
    rarest = numbers == numbers.min()
    last = kinds[rarest][np.argmax(first[rarest])]
    ends = np.flatnonzero(optimizers == last) + 1
    starts = np.concatenate(([0], ends[:-1]))
    whole = int(ends[-1])
    if count - whole > np.max(ends - starts) or not _in_turns(optimizers, starts, ends):
        return alone
    return starts, whole


def _in_turns(optimizers: Indices, starts: Indices, ends: Indices) -> bool:
    """Tells whether at least half of the groups are the same sequence and hold more than one optimizer."""
    patterns = [optimizers[start:end].tobytes() for start, end in zip(starts, ends, strict=True)]
    ((commonest, times),) = Counter(patterns).most_common(1)
    mixed = len(set(np.frombuffer(commonest, dtype=optimizers.dtype).tolist())) > 1
    return mixed and 2 * times >= len(patterns)


WINDOW = 5  # steps whose median is compared: enough to ignore two odd steps
LEAST_STEPS = 9  # with fewer there is no later part to compare with
SLACK = 0.02  # of the median: a smaller warm-up effect is not worth a step
LATE_TAIL = 0.995  # share of the later windows that count as settled


@dataclass(frozen=True)
class WarmUp:
    """The number of leading steps left out, and whether the run had settled by then."""

    steps: int
    over: bool


def find_warmup(seconds: Floats) -> WarmUp:
    """The warm-up of a run: at least its first step, at most a third of its steps.

    Warm-up ends at the first step from which the median of five steps lies where such medians lie in the last two
    thirds of the run, and which is not itself slower than nearly all of them.
    """
    count = len(seconds)
    limit = count // 3
    if count < LEAST_STEPS:
        return WarmUp(min(1, max(count - 1, 0)), count > 1)
    windows = np.median(np.lib.stride_tricks.sliding_window_view(seconds, WINDOW), axis=1)
    later = windows[limit:]
    slack = SLACK * float(np.median(seconds[limit:]))
    low, high = np.quantile(later, [1 - LATE_TAIL, LATE_TAIL])
    slowest = float(np.quantile(seconds[limit:], LATE_TAIL)) + slack
    settled = (windows[:limit] >= low - slack) & (windows[:limit] <= high + slack) & (seconds[:limit] <= slowest)
    found = np.flatnonzero(settled[1:])
    return WarmUp(int(found[0]) + 1, True) if len(found) else WarmUp(limit, False)


PHASES = ("data", "forward", "backward", "optimizer", "rest")


@dataclass(frozen=True)
class Series:
    """Arrays of ranks by iterations; NaN if a figure was not recorded. A step of the tables is one iteration."""

    ranks: tuple[int, ...]
    step_seconds: Floats  # ranks x iterations
    loop_seconds: Floats  # the step, what lies between it and the previous one, and waiting for data
    phase_seconds: dict[str, Floats]
    samples: Floats
    micro_batches: Floats
    loss: Floats
    optimizer_steps: int  # in the most common iteration
    rows: tuple[tuple[StepRow, ...], ...]  # by rank: the last row of every iteration
    warmup: WarmUp
    in_turn: int | None = None  # leading iterations that were taken in turn with other runs; None: no turns asked for
    counted: int | None = None  # iterations that count; None: all
    relation: Relation = ALONE  # how the ranks relate to each other

    @property
    def slowest_seconds(self) -> Floats:
        """The step time of the run: the longest over the ranks, step by step."""
        longest: Floats = self.step_seconds.max(axis=0)
        return longest

    @property
    def settled(self) -> slice:
        """The iterations after warm-up; those out of turn do not count, because a partner may have run beside them."""
        return slice(self.warmup.steps, self.counted)

    def median(self) -> RunMedian:
        """The run's median step after warm-up."""
        return run_median(self.slowest_seconds[self.settled])

    def loop_median(self) -> RunMedian | None:
        """The median of the whole loop, including waiting for data; None if the gaps were not recorded."""
        known = self.settled_loops()
        return run_median(known) if len(known) else None

    def settled_loops(self) -> Floats:
        """The times from the end of a step to the end of the next, the longest over the ranks, where gaps are known."""
        loop: Floats = self.loop_seconds[:, self.settled].max(axis=0)
        return loop[np.isfinite(loop)]

    def typical(self, values: Floats) -> float | None:
        """The median over the settled iterations of the mean over ranks; None if nothing was recorded."""
        settled = values[:, self.settled]
        known = settled[:, np.isfinite(settled).all(axis=0)]
        return float(np.median(known.mean(axis=0))) if known.size else None

    def global_samples(self) -> float | None:
        """Samples per iteration over all ranks, each batch once; None if not known for most iterations."""
        if self.relation.batches is None or self.relation.samples is not None:
            return self.relation.samples
        own = [index for index, rank in enumerate(self.ranks) if rank in self.relation.feeding]
        settled = self.samples[own or slice(None), self.settled].sum(axis=0)
        known = settled[np.isfinite(settled)]
        return float(np.median(known)) if len(known) and 2 * len(known) >= len(settled) else None


def series(run: Run) -> Series | None:
    """The run's series over the steps that every rank recorded; None if there are none."""
    with_steps = [rank for rank in run.ranks if rank.steps]
    if not with_steps:
        return None
    common = set.intersection(*({row.step for row in rank.steps} for rank in with_steps))
    rows = [[row for row in rank.steps if row.step in common] for rank in with_steps]
    if not rows[0]:
        return None
    starts, whole = iteration_starts(np.array([row.optimizer for row in rows[0]]))
    rows = [one[:whole] for one in rows]

    def gather(read: Callable[[StepRow], float | None], scale: float = 1.0) -> Floats:
        table = [[_number(read(row)) for row in one] for one in rows]
        summed: Floats = np.add.reduceat(np.array(table, dtype=np.float64) * scale, starts, axis=1)
        return summed

    own_steps = gather(lambda row: row.step_ns, NANO)
    outside = gather(lambda row: row.data_ns - row.data_inside_ns, NANO)
    between = gather(lambda row: row.between_ns, NANO)
    # An iteration of several steps lasts from the beginning of its first to the end of its last.
    first = set(starts.tolist())
    rows_within = [[None if index in first else row for index, row in enumerate(one)] for one in rows]
    between_within = _sums(rows_within, starts, lambda row: row.between_ns or 0)
    steps = own_steps + between_within + _sums(rows_within, starts, lambda row: row.data_ns - row.data_inside_ns)
    ends = np.append(starts[1:], whole) - 1
    last_rows = tuple(tuple(one[end] for end in ends) for one in rows)
    lengths = np.diff(np.append(starts, whole))
    in_turn = _in_turn(last_rows) if run.spec.turns is not None else None
    # If most were out of turn, all count, and a caveat says so.
    counted = in_turn if in_turn is not None and 2 * in_turn >= len(starts) else None
    return Series(
        ranks=tuple(rank.rank for rank in with_steps),
        step_seconds=steps,
        loop_seconds=own_steps + outside + between,
        phase_seconds={
            "data": gather(lambda row: row.data_ns, NANO),
            "forward": gather(lambda row: row.forward_ns, NANO),
            "backward": gather(lambda row: row.backward_ns, NANO),
            "optimizer": gather(lambda row: row.optimizer_ns, NANO),
            "rest": gather(lambda row: row.rest_ns, NANO) + between_within,
        },
        samples=_samples(rows, starts),
        micro_batches=gather(lambda row: row.micro_batches),
        loss=np.array([[_number(row.loss) for row in one] for one in last_rows], dtype=np.float64),
        optimizer_steps=int(np.bincount(lengths).argmax()),
        rows=last_rows,
        warmup=find_warmup(steps.max(axis=0)[:counted]),
        in_turn=in_turn,
        counted=counted,
        relation=relation_of(run),
    )


def _sums(rows: Sequence[Sequence[StepRow | None]], starts: Indices, read: Callable[[StepRow], int]) -> Floats:
    """Seconds, added up over each iteration; rows that are None add nothing."""
    table = np.array([[read(row) if row is not None else 0 for row in one] for one in rows], dtype=np.float64)
    summed: Floats = np.add.reduceat(table * NANO, starts, axis=1)
    return summed


def _samples(rows: Sequence[Sequence[StepRow]], starts: Indices) -> Floats:
    """The samples of each iteration: of several optimizers, those of the one that saw most, as they share the data."""
    by_optimizer = []
    for optimizer in sorted({row.optimizer for row in rows[0]}):
        own = [[_number(row.samples) if row.optimizer == optimizer else 0.0 for row in one] for one in rows]
        by_optimizer.append(np.add.reduceat(np.array(own, dtype=np.float64), starts, axis=1))
    most: Floats = np.max(by_optimizer, axis=0)
    return most


def _in_turn(rows: Sequence[Sequence[StepRow]]) -> int:
    """The number of iterations before the first one that some rank took out of turn."""
    out = (index for index, ranks in enumerate(zip(*rows, strict=True)) if any(row.turn_ns is None for row in ranks))
    return next(out, len(rows[0]))


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


@dataclass(frozen=True)
class StepModules:
    """The modules that opened steps and at which samples were counted: class names, the commonest first."""

    opened_by: tuple[str, ...] = ()  # empty: no call was seen, or the file does not say
    samples_at: tuple[str, ...] = ()
    samples_unknown: str = ""  # a part of a sentence; empty where samples are known, or nothing is said


NOTHING_SEEN = StepModules()


def step_modules(run: Run, series: Series) -> StepModules:
    """The modules as recorded by the first rank that made steps."""
    record = next(rank for rank in run.ranks if rank.rank == series.ranks[0])
    names = {row.number: row.name for row in record.roots}
    reason, module = "", "a module"
    if series.global_samples() is None:
        reasons = Counter((row.samples_unknown, row.samples_at) for row in record.steps if row.samples_unknown)
        if reasons:
            (reason, number), _ = reasons.most_common(1)[0]
            module = names.get(number, module) if number is not None else module
    return StepModules(
        opened_by=_commonest((row.opened_by for row in record.steps), names),
        samples_at=_commonest((row.samples_at for row in record.steps if row.samples is not None), names),
        samples_unknown=REASONS[reason].format(module=module) if reason in REASONS else "",
    )


def _commonest(numbers: Iterable[int | None], names: dict[int, str]) -> tuple[str, ...]:
    counts = Counter(names[number] for number in numbers if number is not None and number in names)
    return tuple(name for name, _ in counts.most_common())


def sentence(modules: StepModules) -> str:
    """A sentence to stand below a table; empty if nothing is known."""
    if not modules.opened_by:
        return ""
    opened = " or ".join(modules.opened_by)
    if not modules.samples_at:
        return f"A step opens with a call of {opened}."
    if modules.samples_at == modules.opened_by:
        return f"A step opens with a call of {opened}; samples are counted at its input."
    return (
        f"A step opens with a call of {opened}; samples are counted at the input of {' or '.join(modules.samples_at)}."
    )
