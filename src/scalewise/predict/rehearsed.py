"""Reads a rehearsed run back as tapes of its settled steps; of processes that ran together, each step's slowest.

If messages are sent between steps, or in some steps only, a single step says too little: then all steps form one
tape, whatever their messages, each with what lies between it and the one before. Steps of several optimizers that take
turns are one step here, as they are in `analysis/series.py`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import get_args

import numpy as np

from scalewise.analysis.relation import Relation, relation_of
from scalewise.analysis.series import iteration_starts
from scalewise.predict.page_faults import KEPT, page_shares
from scalewise.predict.tape import Compute, Entry, Issue, Phase, Tape, Wait, tape_of_steps
from scalewise.records.collectives import collective_kind
from scalewise.records.load import Run
from scalewise.records.rehearsal import SteeredRow, TapeRow, UnrehearsedRow
from scalewise.records.rows import StepRow
from scalewise.records.spec import Rehearsed as StandIns
from scalewise.units import NANO

WARM_UP_STEPS = 3  # DDP rebuilds its buckets after the first step
PHASES: tuple[Phase, ...] = get_args(Phase)


@dataclass(frozen=True)
class RehearsedRank:
    """The record of one process as rank r of N."""

    ranks: int
    rank: int
    company: int  # processes that rehearsed at the same time
    device: str
    tapes: tuple[Tape, ...]  # of the settled steps; a single one of all steps if they are uneven
    between_seconds: float  # outside any step, the median; 0 if it is on tape
    peak_bytes: int | None
    steered: tuple[SteeredRow, ...] = ()
    unrehearsed: tuple[UnrehearsedRow, ...] = ()
    dtypes: tuple[str, ...] = ()  # of the parameters; empty: not known
    uneven: bool = False  # messages are sent between steps, or in some steps only
    relation: Relation | None = None  # how the ranks relate to each other; None: each has samples of its own
    by_process: tuple[tuple[Tape, ...], ...] = ()  # the same steps of each process; empty: not known, or uneven

    def with_tapes(self, tapes: Sequence[Tape]) -> "RehearsedRank":
        """The same rehearsal with other steps, of which only the slowest of each are known."""
        return replace(self, tapes=tuple(tapes), by_process=())

    page_share: float = 0.0  # of computing, in memory taken anew in every step; a part of it is taken out of the tapes

    @property
    def batches(self) -> int | None:
        """The number of different batches on which all ranks work in one step; None if not known."""
        return self.ranks if self.relation is None else self.relation.batches

    def samples_of_all(self, tape: Tape) -> float | None:
        """The samples of all ranks in one step, each batch counted once."""
        if self.relation is not None and self.relation.samples is not None:
            return self.relation.samples
        return tape.samples * self.batches if tape.samples is not None and self.batches else None

    @property
    def typical(self) -> Tape:
        """The tape of the median step."""
        ordered = sorted(self.tapes, key=lambda tape: tape.compute_seconds)
        return ordered[len(ordered) // 2]

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on how a step is counted if that is not as usual."""
        if not self.uneven:
            return ()
        return (
            "messages go out between steps, or in some steps only: a step is counted from the end of the one before, "
            "and as the mean of all",
        )

    @property
    def left_out(self) -> tuple[str, ...]:
        """Sentences about what a prediction from this rehearsal does not include."""
        said = []
        if any(collective_kind(one.kind).receives for one in self.typical.messages):
            said.append(
                "waiting until another rank has something to send (recv) not counted: the step is a lower bound"
            )
        return tuple(said)


@dataclass(frozen=True)
class NotRehearsed:
    """The reason why a run gives no tape."""

    reason: str


def rehearsed(run: Run) -> RehearsedRank | NotRehearsed:
    """The rehearsal read from a run, or the reason why it gives none."""
    spec = run.spec.rehearsed
    if spec is None:
        return NotRehearsed("the run was no rehearsal")
    if not run.measured:
        return NotRehearsed(run.outcome.sentence if run.outcome else "the rehearsal did not end")
    taken = [(_settled(rank.rehearsal), rank.steps) for rank in run.ranks]
    firsts = _first_steps(taken[0][1])
    uneven = any(_uneven(rows, firsts) for rows, _ in taken)
    by_step = [list(_tapes(rows, steps, spec, alone=not uneven, firsts=firsts)) for rows, steps in taken]
    shares = _page_shares(run, by_step)
    cut = [_without(tapes, (1 - KEPT) * share) for tapes, share in zip(by_step, shares, strict=True)]
    together = _common([_whole(tapes, firsts) for tapes in cut])
    tapes = tuple(max(of_step, key=lambda tape: tape.compute_seconds) for of_step in zip(*together, strict=True))
    if not tapes:
        return NotRehearsed("fewer than four steps were made, and the first three warm up")
    first = run.ranks[0]
    between = sorted(
        row.between_ns
        for row in first.steps
        if row.between_ns is not None and firsts.get(row.step, row.step) == row.step
    )
    return RehearsedRank(
        ranks=spec.world_size,
        rank=spec.rank,
        company=len(run.ranks),
        device=run.spec.device,
        tapes=(tape_of_steps(tapes),) if uneven else tapes,
        between_seconds=between[len(between) // 2] * NANO if between and not uneven else 0.0,
        peak_bytes=_peak_bytes(run),
        steered=tuple(row for row in first.rehearsal if isinstance(row, SteeredRow)),
        unrehearsed=tuple(row for row in first.rehearsal if isinstance(row, UnrehearsedRow)),
        dtypes=first.model.dtypes if first.model else (),
        uneven=uneven,
        relation=relation_of(run),
        by_process=() if uneven else together,
        page_share=max(shares),
    )


def _page_shares(run: Run, by_step: Sequence[Sequence[tuple[int, Tape]]]) -> list[float]:
    """The share of each process's computing in pages taken anew; none on GPUs, whose kernels do not wait for them."""
    if run.spec.device != "cpu":
        return [0.0 for _ in run.ranks]
    computing = [median(tape.compute_seconds for _, tape in tapes) if tapes else 0.0 for tapes in by_step]
    return page_shares(run.ranks, computing, run.machine.page_seconds if run.machine else None)


def _without(tapes: Sequence[tuple[int, Tape]], share: float) -> list[tuple[int, Tape]]:
    """The same steps with computing shorter by that share; which phase took it is not known."""
    return [(step, tape.scaled(dict.fromkeys(PHASES, 1 - share)) if share else tape) for step, tape in tapes]


def _settled(rows: Sequence[object]) -> list[TapeRow]:
    return [row for row in rows if isinstance(row, TapeRow) and row.step >= WARM_UP_STEPS]


def _first_steps(steps: Sequence[StepRow]) -> dict[int, int]:
    """The first step of the iteration of each step; a step that is in no whole iteration is left out."""
    if not steps:
        return {}
    starts, whole = iteration_starts(np.array([row.optimizer for row in steps]))
    of_step = np.searchsorted(starts, np.arange(whole), side="right") - 1
    return {steps[index].step: steps[starts[of_step[index]]].step for index in range(whole)}


def _uneven(rows: Sequence[TapeRow], firsts: Mapping[int, int]) -> bool:
    """Tells whether messages are sent between iterations, or differ among them."""
    sent: dict[int, list[object]] = {}
    for row in rows:
        if row.step not in firsts:
            continue  # of an iteration that was cut off
        first = firsts[row.step]
        if row.outside and row.step == first:
            return True
        sent.setdefault(first, []).append((row.outside, row.messages))
    longest = max(map(len, sent.values()), default=0)
    whole = [messages for messages in sent.values() if len(messages) == longest]  # warm-up may have cut the first
    return any(messages != whole[0] for messages in whole)


def _tapes(
    rows: Sequence[TapeRow], steps: Sequence[StepRow], spec: StandIns, alone: bool, firsts: Mapping[int, int]
) -> Iterator[tuple[int, Tape]]:
    """Yields a tape for each step; unless it stands alone, with what lies between it and the one before."""
    made = {row.step: row for row in steps}
    for row in rows:
        step = made.get(row.step)
        entries: tuple[Entry, ...] = tuple(_entries(row, spec.world_size))
        if not alone or firsts.get(row.step, row.step) != row.step:
            gap_ns = (step.between_ns or 0) + step.data_ns - step.data_inside_ns if step else 0
            entries = (*_sent_between(row, spec.world_size), Compute(gap_ns * NANO), *entries)
        yield row.step, _tape(entries, step, spec)


def _whole(tapes: Sequence[tuple[int, Tape]], firsts: Mapping[int, int]) -> list[tuple[int, Tape]]:
    """The tapes of whole iterations; where several optimizers take turns, the tapes of their steps are put together."""
    grouped: dict[int, list[Tape]] = {}
    for step, tape in tapes:
        if step in firsts:
            grouped.setdefault(firsts[step], []).append(tape)
    lengths = Counter(firsts.values())
    return [(first, _joined(group)) for first, group in grouped.items() if len(group) == lengths[first]]


def _joined(tapes: Sequence[Tape]) -> Tape:
    if len(tapes) == 1:
        return tapes[0]
    most = max((tape.samples for tape in tapes if tape.samples is not None), default=None)  # they share the data
    parts = sum(tape.micro_batches for tape in tapes)
    return replace(tape_of_steps(tapes), samples=most, micro_batches=parts, steps=1)


def _tape(entries: tuple[Entry, ...], step: StepRow | None, spec: StandIns) -> Tape:
    samples, micro_batches = (step.samples, step.micro_batches) if step else (None, 1)
    return Tape(entries, spec.world_size, spec.rank, samples, micro_batches)


def _sent_between(row: TapeRow, ranks: int) -> Iterator[Entry]:
    """Yields messages between steps; their times are not on tape, so each is taken to be waited for at once."""
    for number, (kind, size_bytes, group) in enumerate(row.outside, len(row.messages)):
        yield Issue(number, kind, size_bytes, group or ranks)
        yield Wait(number)


def _entries(row: TapeRow, ranks: int) -> Iterator[Entry]:
    phase: Phase = "own"
    before_ns, held_ns = 0, 0
    for what, number, at_ns in row.marks:
        held_ns += max(0, at_ns - before_ns)
        before_ns = max(before_ns, at_ns)
        if held_ns:
            yield Compute(held_ns * NANO, phase)
            held_ns = 0
        if what == "issue":
            kind, size_bytes, group = row.messages[number]
            yield Issue(number, kind, size_bytes, group or ranks, row.nodes[number] if row.nodes else 0)
        elif what == "wait":
            yield Wait(number)
        else:
            phase = next((one for one in PHASES if one == what), "own")


def _common(by_process: Sequence[Sequence[tuple[int, Tape]]]) -> tuple[tuple[Tape, ...], ...]:
    """The steps that every process made, of each process; a process without any is left out."""
    together = [dict(tapes) for tapes in by_process if tapes]
    if not together:
        return ()
    common = sorted(set.intersection(*(set(tapes) for tapes in together)))
    return tuple(tuple(tapes[step] for step in common) for tapes in together)


def _peak_bytes(run: Run) -> int | None:
    rows = [row for rank in run.ranks for row in rank.memory]
    on_gpu = [row.cuda_peak_allocated_bytes for row in rows if row.cuda_peak_allocated_bytes]
    return max(on_gpu or [row.peak_rss_bytes for row in rows], default=None)
