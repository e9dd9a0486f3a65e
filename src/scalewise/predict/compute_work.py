"""Computes what a sample costs: seconds of each phase over a micro-batch's samples, from several batches."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import get_args

import numpy as np

from scalewise.predict.rehearsed import RehearsedRank
from scalewise.predict.tape import Compute, Phase, Tape

PHASES: tuple[Phase, ...] = get_args(Phase)
PER_SAMPLE: tuple[Phase, ...] = ("data", "forward", "backward")
SAME_BATCH = 0.02  # batches that differ by less are the same: the last one of an epoch may be short
LEAST_SPAN = 1.5  # largest over smallest batch: with less, noise decides the slope
ONE_BATCH = "that forward and backward take time in proportion to the batch: only one batch was rehearsed"


@dataclass(frozen=True)
class SampleLine:
    """A line: a fixed part, and a part for each sample."""

    fixed: float
    per_sample: float

    def at(self, samples: float) -> float:
        """The value for a micro-batch of this many samples."""
        return self.fixed + samples * self.per_sample


@dataclass(frozen=True)
class WorkLine:
    """The times of computing and the sizes of messages over the samples of a micro-batch."""

    phases: dict[Phase, SampleLine]
    messages: tuple[SampleLine, ...]  # bytes of each message of a step, in their order; empty: not known
    least: float  # samples of the smallest micro-batch that was rehearsed
    most: float
    guesses: tuple[str, ...] = ()

    def factors(self, samples: float, factor: float) -> dict[Phase, float]:
        """The factor by which each phase takes longer with `factor` times the samples."""
        return {phase: _ratio(line, samples, factor) for phase, line in self.phases.items()}

    def message_factor(self, number: int, samples: float, factor: float) -> float:
        """The factor by which that message grows with `factor` times the samples."""
        return _ratio(self.messages[number], samples, factor)

    def beyond(self, samples: float) -> tuple[str, ...]:
        """The guesses about a batch that lies outside those rehearsed."""
        if self.guesses or (self.least <= samples * (1 + 1e-9) and samples <= self.most * (1 + 1e-9)):
            return self.guesses
        return (f"that {samples:g} samples cost as the line through {self.least:g} to {self.most:g} says",)


def samples_of(tape: Tape) -> float:
    """The samples of one micro-batch; 1 if not known, so that the batch itself is the unit."""
    return tape.samples / max(1, tape.micro_batches) if tape.samples else 1.0


def phase_seconds(tape: Tape) -> dict[Phase, float]:
    """The seconds of each phase in a whole step."""
    found: dict[Phase, float] = dict.fromkeys(PHASES, 0.0)
    for entry in tape.entries:
        if isinstance(entry, Compute):
            found[entry.phase] += entry.seconds / tape.steps
    return found


def work_line(rehearsals: Sequence[RehearsedRank]) -> WorkLine:
    """The line from rehearsals with equally many processes at once: processes on one machine slow each other down."""
    by_company: dict[int, list[RehearsedRank]] = defaultdict(list)
    for one in rehearsals:
        by_company[one.company].append(one)
    used = max(by_company.values(), key=lambda group: (_span(group) >= LEAST_SPAN, group[0].company))
    batches = [samples_of(one.typical) for one in used]
    if _span(used) < LEAST_SPAN or any(one.typical.samples is None for one in used):
        return _proportional(used[0].typical)
    taken = [_typical_seconds(one) for one in used]
    lines: dict[Phase, SampleLine] = {
        phase: _fitted(batches, [seconds[phase] for seconds in taken]) for phase in PHASES if phase != "optimizer"
    }
    return WorkLine(lines, _message_lines(used, batches), min(batches), max(batches))


def _span(rehearsals: Sequence[RehearsedRank]) -> float:
    batches = [samples_of(one.typical) for one in rehearsals]
    return max(batches) / min(batches)


def _typical_seconds(rehearsal: RehearsedRank) -> dict[Phase, float]:
    """The seconds of each phase in one micro-batch, as medians over steps."""
    steps = [(phase_seconds(tape), max(1, tape.micro_batches)) for tape in rehearsal.tapes]
    return {phase: median(seconds[phase] / count for seconds, count in steps) for phase in PHASES}


def _proportional(tape: Tape) -> WorkLine:
    samples, seconds = samples_of(tape), phase_seconds(tape)
    lines = {phase: SampleLine(0.0, seconds[phase] / samples) for phase in PER_SAMPLE}
    return WorkLine(lines, (), samples, samples, (ONE_BATCH,))


def _fitted(batches: Sequence[float], seconds: Sequence[float]) -> SampleLine:
    """The least-squares line; neither part can be negative."""
    samples, target = np.array(batches), np.array(seconds)
    centre, mean = float(samples.mean()), float(target.mean())
    around = samples - centre
    slope = max(0.0, float(around @ target) / float(around @ around)) if float(around @ around) else 0.0
    fixed = mean - slope * centre
    if fixed < 0:
        return SampleLine(0.0, max(0.0, float(samples @ target) / float(samples @ samples)))
    return SampleLine(fixed, slope)


def _message_lines(rehearsals: Sequence[RehearsedRank], batches: Sequence[float]) -> tuple[SampleLine, ...]:
    sent = [one.typical.messages for one in rehearsals]
    if len({tuple(message.kind for message in messages) for messages in sent}) > 1:
        return ()
    return tuple(_fitted(batches, [message.size_bytes for message in same]) for same in zip(*sent, strict=True))


def _ratio(line: SampleLine, samples: float, factor: float) -> float:
    before = line.at(samples)
    return line.at(samples * factor) / before if before > 0 else 1.0
