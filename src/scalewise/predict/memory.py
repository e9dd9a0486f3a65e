"""Whether a rank fits in its memory, and the largest batch that does: something once, and something for each sample.

Replicas hold the same whatever their number is, so rehearsals of different batches tell both parts even where they
stood for different numbers of ranks. Shards (FSDP) do not: their rehearsals must have stood for the same number.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scalewise.predict.answer import Answer, AtRanks
from scalewise.predict.rehearsed import Rehearsed
from scalewise.predict.work import LEAST_SPAN, samples_of
from scalewise.records.inspection import MemoryPartsRow
from scalewise.units import bytes_text

SHARDS = ("all_gather", "reduce_scatter")
FAR = 8  # times the largest batch that was rehearsed: beyond it, that memory grows on the same way is a guess
PER_SAMPLE_PARTS = ("activations", "data")


@dataclass(frozen=True)
class MemoryLine:
    """Bytes of one rank over the samples of a micro-batch."""

    fixed_bytes: float
    bytes_per_sample: float
    how: str  # in words
    most_samples: float  # that a rehearsal had

    def bytes_with(self, samples: float) -> float:
        """With a micro-batch of so many."""
        return self.fixed_bytes + samples * self.bytes_per_sample

    def largest_batch(self, capacity_bytes: float) -> int | None:
        """Samples of a micro-batch; None: a sample costs nothing that can be seen."""
        if self.bytes_per_sample <= 0:
            return None
        return max(0, int((capacity_bytes - self.fixed_bytes) / self.bytes_per_sample))


@dataclass(frozen=True)
class MemoryRow:
    """One number of ranks."""

    ranks: int
    peak_bytes: int | None  # predicted, of the rank that was rehearsed
    measured_bytes: int | None  # where so many ranks ran
    capacity_bytes: float | None
    fits: bool | None  # None: the peak or the capacity is not known
    samples: float | None  # of a micro-batch now
    line: MemoryLine | None
    largest_batch: int | None  # of a rank's micro-batch
    guesses: tuple[str, ...] = ()
    why_not: str = ""  # there is no largest batch


def memory_rows(answer: Answer, capacity_bytes: float | None) -> tuple[MemoryRow, ...]:
    """Of every number of ranks that was rehearsed."""
    return tuple(_row(answer, at, capacity_bytes) for at in answer.at)


def memory_line(answer: Answer, at: AtRanks) -> MemoryLine | None:
    """Of a rank at that number of ranks; None: too few batches were rehearsed, and none was looked into."""
    everything = [*(one.rehearsal for one in answer.at), *answer.others]
    sharded = any(message.kind in SHARDS for message in at.rehearsal.typical.messages)
    alike = [one for one in everything if not sharded or one.ranks == at.ranks]
    line = _through(alike)
    looked_into = None
    if answer.parts is not None and (not sharded or at is answer.at[0]):
        looked_into = _from_parts(answer.parts, answer.at[0].rehearsal)
    # What a process holds beside its tensors differs by more than a sample needs; an allocator of a device is exact.
    return line or looked_into if answer.device == "cuda" else looked_into or line


def _row(answer: Answer, at: AtRanks, capacity_bytes: float | None) -> MemoryRow:
    line, peak = memory_line(answer, at), at.predicted.peak_bytes
    tape = at.rehearsal.typical
    why = ""
    if line is None:
        why = "only one batch was rehearsed, and what a sample needs is not known"
    elif capacity_bytes is None:
        why = "how much memory a rank has is not known"
    elif line.bytes_per_sample <= 0:
        why = "a larger batch did not need more memory that could be seen"
    largest = line.largest_batch(capacity_bytes) if line and capacity_bytes is not None else None
    return MemoryRow(
        ranks=at.ranks,
        peak_bytes=peak,
        measured_bytes=at.measured.peak_bytes if at.measured else None,
        capacity_bytes=capacity_bytes,
        fits=None if peak is None or capacity_bytes is None else peak <= capacity_bytes,
        samples=samples_of(tape) if tape.samples else None,
        line=line,
        largest_batch=largest,
        guesses=_far(line, largest),
        why_not=why,
    )


def _far(line: MemoryLine | None, largest: int | None) -> tuple[str, ...]:
    if line is None or largest is None or largest <= FAR * line.most_samples:
        return ()
    return (f"that memory grows on by {bytes_text(line.bytes_per_sample)} a sample far beyond {line.most_samples:g}",)


def _through(rehearsals: Sequence[Rehearsed]) -> MemoryLine | None:
    """Least squares over batches that differ enough."""
    points = [
        (samples_of(one.typical), float(one.peak_bytes))
        for one in rehearsals
        if one.peak_bytes is not None and one.typical.samples
    ]
    if not points or max(points)[0] < LEAST_SPAN * min(points)[0]:
        return None
    centre = sum(samples for samples, _ in points) / len(points)
    mean = sum(peak for _, peak in points) / len(points)
    spread = sum((samples - centre) ** 2 for samples, _ in points)
    slope = max(0.0, sum((samples - centre) * (peak - mean) for samples, peak in points) / spread)
    batches = sorted({samples for samples, _ in points})
    how = f"from rehearsals with {', '.join(f'{one:g}' for one in batches)} samples in a micro-batch"
    return MemoryLine(max(0.0, mean - slope * centre), slope, how, batches[-1])


def _from_parts(parts: MemoryPartsRow, rehearsal: Rehearsed) -> MemoryLine | None:
    """What was alive at the peak, by what it is for."""
    tape = rehearsal.typical
    if not tape.samples or not parts.peak_bytes:
        return None
    growing = sum(parts.at_peak.get(name, 0) for name in PER_SAMPLE_PARTS) or parts.activation_bytes
    per_sample = growing / samples_of(tape)
    peak = rehearsal.peak_bytes or parts.peak_bytes
    how = "from what the tensors of an inspected rehearsal are for"
    return MemoryLine(max(0.0, peak - growing), per_sample, how, samples_of(tape))
