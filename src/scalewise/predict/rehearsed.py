"""Reads a rehearsed run back: its settled steps as tapes, each of the slowest of those that kept company."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from scalewise.predict.tape import Compute, Entry, Issue, Phase, Tape, Wait
from scalewise.records.rehearsal import SteeredRow, TapeRow, UnrehearsedRow
from scalewise.records.rows import StepRow
from scalewise.results.run import Run
from scalewise.units import NANO

WARM_UP_STEPS = 3  # DDP rebuilds its buckets after the first step
PHASES: tuple[Phase, ...] = get_args(Phase)


@dataclass(frozen=True)
class Rehearsed:
    """What one process did as rank r of N."""

    ranks: int
    rank: int
    company: int  # processes that rehearsed at once
    device: str
    tapes: tuple[Tape, ...]  # of the settled steps
    between_seconds: float  # outside any step, the median
    peak_bytes: int | None
    steered: tuple[SteeredRow, ...] = ()
    unrehearsed: tuple[UnrehearsedRow, ...] = ()
    dtypes: tuple[str, ...] = ()  # of the parameters; empty: not known
    outside: tuple[str, ...] = ()  # kinds of the messages between two steps

    @property
    def typical(self) -> Tape:
        """The tape of the median step."""
        ordered = sorted(self.tapes, key=lambda tape: tape.compute_seconds)
        return ordered[len(ordered) // 2]

    @property
    def left_out(self) -> tuple[str, ...]:
        """What a prediction from this does not hold, in words."""
        said = []
        if self.outside:
            kinds = ", ".join(sorted(set(self.outside)))
            count = f"{len(self.outside)} message{'s' * (len(self.outside) > 1)} between steps ({kinds})"
            said.append(f"{count} not counted: a step is from its first forward pass to its last optimizer")
        if {"recv", "batch_isend_irecv"} & {one.kind for one in self.typical.messages} or "recv" in self.outside:
            said.append(
                "waiting until another rank has something to send (recv) not counted: the step is a lower bound"
            )
        return tuple(said)


@dataclass(frozen=True)
class NotRehearsed:
    """Why a run gives no tape."""

    reason: str


def rehearsed(run: Run) -> Rehearsed | NotRehearsed:
    """From the run's folder."""
    spec = run.spec.rehearse
    if spec is None:
        return NotRehearsed("the run was no rehearsal")
    if not run.measured:
        return NotRehearsed(run.outcome.sentence if run.outcome else "the rehearsal did not end")
    tapes = _slowest([list(_tapes(rank.rehearsal, rank.steps, spec.world_size, spec.rank)) for rank in run.ranks])
    if not tapes:
        return NotRehearsed("fewer than four steps were made, and the first three warm up")
    first = run.ranks[0]
    between = sorted(row.between_ns for row in first.steps if row.between_ns is not None)
    return Rehearsed(
        ranks=spec.world_size,
        rank=spec.rank,
        company=len(run.ranks),
        device=run.spec.device,
        tapes=tapes,
        between_seconds=between[len(between) // 2] * NANO if between else 0.0,
        peak_bytes=_peak_bytes(run),
        steered=tuple(row for row in first.rehearsal if isinstance(row, SteeredRow)),
        unrehearsed=tuple(row for row in first.rehearsal if isinstance(row, UnrehearsedRow)),
        dtypes=first.model.dtypes if first.model else (),
        outside=_outside(first.rehearsal),
    )


def _tapes(rows: Sequence[object], steps: Sequence[StepRow], ranks: int, rank: int) -> Iterator[tuple[int, Tape]]:
    """Of the settled steps of the most usual shape: a step that is made otherwise cannot be laid beside them."""
    taped = [row for row in rows if isinstance(row, TapeRow) and row.step >= WARM_UP_STEPS]
    shapes = Counter(row.messages for row in taped)
    usual = shapes.most_common(1)[0][0] if shapes else ()
    made = {row.step: row for row in steps}
    for row in taped:
        if row.messages == usual:
            step = made.get(row.step)
            samples = step.samples if step else None
            yield row.step, Tape(tuple(_entries(row, ranks)), ranks, rank, samples, step.micro_batches if step else 1)


def _outside(rows: Sequence[object]) -> tuple[str, ...]:
    """Of the usual gap between two settled steps."""
    gaps = [row.outside for row in rows if isinstance(row, TapeRow) and row.step >= WARM_UP_STEPS]
    usual = Counter(gaps).most_common(1)
    return tuple(kind for kind, _, _ in usual[0][0]) if usual else ()


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


def _slowest(by_process: Sequence[Sequence[tuple[int, Tape]]]) -> tuple[Tape, ...]:
    """Real ranks wait for the slowest of them in every step."""
    together = [dict(tapes) for tapes in by_process if tapes]
    if not together:
        return ()
    common = sorted(set.intersection(*(set(tapes) for tapes in together)))
    return tuple(max((tapes[step] for tapes in together), key=lambda tape: tape.compute_seconds) for step in common)


def _peak_bytes(run: Run) -> int | None:
    rows = [row for rank in run.ranks for row in rank.memory]
    on_gpu = [row.cuda_peak_allocated_bytes for row in rows if row.cuda_peak_allocated_bytes]
    return max(on_gpu or [row.peak_rss_bytes for row in rows], default=None)
