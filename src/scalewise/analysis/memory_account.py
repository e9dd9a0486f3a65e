"""Describes the memory of an arm's rank in one value: its peak by purpose and by line, and what still fits."""

from collections.abc import Sequence
from dataclasses import dataclass

from scalewise.analysis.arms import arm_of
from scalewise.analysis.inspection import inspection_of
from scalewise.analysis.machine_state import gpu_bytes_per_rank
from scalewise.analysis.memory_parts import MemoryLine, MemoryParts, memory_line_from_parts, memory_parts
from scalewise.analysis.series import series
from scalewise.records.inspection import MemoryByLineRow
from scalewise.records.load import Run

# Share of a nearly full memory: the CUDA context, and what the allocator reserves beyond what it gives out. Measured
# on an H200: 3.5 % with the largest batch that fitted, beside 0.6 GB of context.
NOT_FOR_TENSORS = 0.05


@dataclass(frozen=True)
class MemoryAccount:
    """The memory of rank 0 of one inspected run."""

    run: str
    experiment: str
    arm: str
    parts: MemoryParts
    by_line: tuple[MemoryByLineRow, ...]  # at the peak, the largest first
    device: str
    capacity_bytes: int | None  # of a GPU, or of the host divided among the ranks
    samples: float | None  # of a rank's micro-batch
    line: MemoryLine | None  # None: what a sample needs is not known

    @property
    def largest_batch(self) -> int | None:
        """Samples of a rank's micro-batch that fit, predicted from one batch; None if not known."""
        if self.line is None or self.capacity_bytes is None:
            return None
        found = self.line.largest_batch((1 - NOT_FOR_TENSORS) * self.capacity_bytes)
        return None if found is None else max(found, int(self.samples or 0))  # the batch that ran fits


def memory_accounts_of(runs: Sequence[Run]) -> tuple[MemoryAccount, ...]:
    """An account for every inspected run that recorded memory by purpose."""
    found = (_account(run) for run in runs if run.spec.inspected)
    return tuple(one for one in found if one is not None)


def _account(run: Run) -> MemoryAccount | None:
    inspection = inspection_of(run)
    parts = memory_parts(inspection)
    if inspection is None or inspection.memory is None or parts is None:
        return None
    samples = _micro_batch_samples(run)
    how = (
        f"from one batch of {samples:g} samples: activations, data and work in progress grow with it" if samples else ""
    )
    return MemoryAccount(
        run=run.spec.name,
        experiment=run.spec.experiment,
        arm=arm_of([run]).label,
        parts=parts,
        by_line=inspection.memory_by_line,
        device=run.spec.device,
        capacity_bytes=_capacity_bytes(run),
        samples=samples,
        line=memory_line_from_parts(inspection.memory, samples, inspection.peak_bytes or 0, how),
    )


def _micro_batch_samples(run: Run) -> float | None:
    found = series(run)
    samples, passes = (found.typical(found.samples), found.typical(found.micro_batches)) if found else (None, None)
    return samples / passes if samples and passes else None


def _capacity_bytes(run: Run) -> int | None:
    if run.machine is None:
        return None
    if run.spec.device == "cuda":
        return gpu_bytes_per_rank(run)
    return run.machine.memory_bytes // max(1, run.spec.ranks) or None
