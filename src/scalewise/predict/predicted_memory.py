"""Computes whether a rank fits in its memory, and the largest batch that does: a fixed part, and a part per sample.

The peak of a step is reached when its backward pass begins (activations) or when its optimizer works (gradients and
state); only the first grows with the batch, so a peak that does not grow between two batches says nothing about larger
ones. Replicas hold the same whatever their number is, so rehearsals of different batches give both parts even if
they were for different numbers of ranks. Shards (FSDP) do not: their rehearsals must be for the same number.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scalewise.analysis.memory_use import MemoryLine, memory_line_from_parts
from scalewise.predict.answer import AtRanks, RehearsalAnswer
from scalewise.predict.compute_work import LEAST_SPAN, samples_of
from scalewise.predict.rehearsed import RehearsedRank
from scalewise.records.collectives import kinds_carrying
from scalewise.records.inspection import MemoryPartsRow
from scalewise.units import bytes_text

SHARDS = kinds_carrying("shards")
FAR = 8  # times the largest rehearsed batch: beyond it, linear growth of memory is a guess


@dataclass(frozen=True)
class PredictedMemory:
    """The memory of a rank at one number of ranks."""

    ranks: int
    peak_bytes: int | None  # predicted, of the rank that was rehearsed
    measured_bytes: int | None  # if this many ranks ran
    capacity_bytes: float | None
    fits: bool | None  # None: the peak or the capacity is not known
    samples: float | None  # of a micro-batch now
    line: MemoryLine | None
    largest_batch: int | None  # of a rank's micro-batch
    guesses: tuple[str, ...] = ()  # assumptions of the peak and of the largest batch
    peak_guesses: tuple[str, ...] = ()  # those of them that concern the peak
    why_not: str = ""  # the reason if there is no largest batch


def memory_rows(answer: RehearsalAnswer, capacity_bytes: float | None) -> tuple[PredictedMemory, ...]:
    """The memory at every number of ranks that was rehearsed."""
    return tuple(_row(answer, at, capacity_bytes) for at in answer.at)


def memory_line(answer: RehearsalAnswer, at: AtRanks) -> MemoryLine | None:
    """The memory of a rank over its batch; None if too few batches were rehearsed and none was inspected."""
    everything = [*(one.as_run for one in answer.at), *answer.others]
    sharded = _sharded(at)
    alike = [one for one in everything if not sharded or one.ranks == at.ranks]
    line = _through(alike)
    looked_into = None
    if answer.parts is not None and (not sharded or at is answer.at[0]):
        looked_into = _from_parts(answer.parts, answer.at[0].as_run)
    # What a process holds besides its tensors differs by more than a sample needs; a device's allocator is exact,
    # and the steeper of the two lines is the safer one.
    if answer.device == "cuda" and line and looked_into:
        return max(line, looked_into, key=lambda one: one.bytes_per_sample)
    return looked_into or line


def _row(answer: RehearsalAnswer, at: AtRanks, capacity_bytes: float | None) -> PredictedMemory:
    line, peak = memory_line(answer, at), at.predicted.peak_bytes
    tape = at.rehearsal.typical
    why = ""
    if line is None:
        why = "only one batch was rehearsed, and what a sample needs is not known"
    elif capacity_bytes is None:
        why = "how much memory a rank has is not known; --memory tells it"
    elif line.bytes_per_sample <= 0:
        why = "a larger batch did not need more memory that could be seen"
    largest = line.largest_batch(capacity_bytes) if line and capacity_bytes is not None else None
    of_peak = () if peak is None and largest is None else (*_buffers(answer, at), *_beside_tensors(answer))
    return PredictedMemory(
        ranks=at.ranks,
        peak_bytes=peak,
        measured_bytes=at.measured.peak_bytes if at.measured else None,
        capacity_bytes=capacity_bytes,
        fits=None if peak is None or capacity_bytes is None else peak <= capacity_bytes,
        samples=samples_of(tape) if tape.samples else None,
        line=line,
        largest_batch=largest,
        guesses=(*of_peak, *_far(line, largest), *(_heap(answer) if largest else ())),
        peak_guesses=of_peak,
        why_not=why,
    )


def _sharded(at: AtRanks) -> bool:
    return any(message.kind in SHARDS for message in at.rehearsal.typical.messages)


def _buffers(answer: RehearsalAnswer, at: AtRanks) -> tuple[str, ...]:
    """A guess about gloo's buffers: measured, FSDP2 ranks held up to 1.4 times their rehearsals, tensors within 2 %."""
    if answer.device == "cuda" or not _sharded(at):
        return ()
    return ("that gloo needs no memory of its own, where it copies every shard that it gathers or scatters",)


def _beside_tensors(answer: RehearsalAnswer) -> tuple[str, ...]:
    """A guess about other memory on a GPU: PyTorch's peak counts tensors only; rehearsed ranks send nothing by NCCL."""
    if answer.device != "cuda":
        return ()
    return (
        "that the CUDA context, NCCL's buffers and fragmentation need no memory: only what is allocated to tensors "
        "is counted",
    )


def _far(line: MemoryLine | None, largest: int | None) -> tuple[str, ...]:
    if line is None or largest is None or largest <= FAR * line.most_samples:
        return ()
    return (f"that memory grows on by {bytes_text(line.bytes_per_sample)} a sample far beyond {line.most_samples:g}",)


def _heap(answer: RehearsalAnswer) -> tuple[str, ...]:
    """A guess about the heap of a process.

    Measured: one that freed many blocks of a few MiB held a third more than its tensors explain.
    """
    return () if answer.device == "cuda" else ("that the heap of a process keeps no more of what was freed than now",)


def _through(rehearsals: Sequence[RehearsedRank]) -> MemoryLine | None:
    """The line through the two largest batches that differ enough: a peak that grows at all grows fastest there."""
    peaks: dict[float, float] = {}
    for one in rehearsals:
        if one.peak_bytes is not None and one.typical.samples:
            samples = samples_of(one.typical)
            peaks[samples] = max(peaks.get(samples, 0.0), float(one.peak_bytes))
    most = max(peaks, default=0.0)
    before = max((samples for samples in peaks if samples * LEAST_SPAN <= most), default=None)
    if before is None:
        return None
    slope = max(0.0, (peaks[most] - peaks[before]) / (most - before))
    how = f"from rehearsals with {before:g} and {most:g} samples in a micro-batch"
    return MemoryLine(max(0.0, peaks[most] - slope * most), slope, how, most)


def _from_parts(parts: MemoryPartsRow, rehearsal: RehearsedRank) -> MemoryLine | None:
    """The line from the uses of tensors; what the process holds besides them stays constant."""
    tape = rehearsal.typical
    samples = samples_of(tape) if tape.samples else None
    how = "from what the tensors of an inspected rehearsal are for"
    return memory_line_from_parts(parts, samples, rehearsal.peak_bytes or 0, how)
