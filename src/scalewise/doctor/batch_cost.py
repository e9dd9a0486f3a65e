"""Measures what a batch costs, by loader: the dataset itself (decode), collating, pinning, and its copy to the GPU."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.device import settled_windows
from scalewise.doctor.loaders import line_that_made, training_rows
from scalewise.records.examination import DeviceWorkRow, LoadingRow
from scalewise.records.notes import NOWHERE, CopyNote
from scalewise.units import NANO, seconds_text


@dataclass(frozen=True)
class BatchCost:
    """The time that making one batch takes on average."""

    batches: int
    workers: int  # processes that make batches; 0: the rank itself
    decode_ns: float
    collate_ns: float
    pin_ns: float

    def text(self) -> str:
        """Returns text such as `decode 6.1 ms, collate 0.2 ms`; pinning is named only if there is any."""
        parts = [("decode", self.decode_ns), ("collate", self.collate_ns)]
        parts += [("pin", self.pin_ns)] if self.pin_ns else []
        return ", ".join(f"{name} {seconds_text(value * NANO)}" for name, value in parts)

    def by_whom(self) -> str:
        """Returns the end of a sentence that says which processes make the batches."""
        if not self.workers:
            return ", in the training process itself"
        return f", in each of {self.workers} workers" if self.workers > 1 else ", in the one worker"


def loading_of(rank: RankCase, loader: int) -> BatchCost | None:
    """Returns the cost over all workers of a loader, by each worker's highest count; None if nothing was measured."""
    longest: dict[int, LoadingRow] = {}
    for row in rank.loading:
        if row.loader == loader and row.batches >= longest.get(row.worker, row).batches:
            longest[row.worker] = row
    batches = sum(row.batches for row in longest.values())
    if not batches:
        return None
    return BatchCost(
        batches=batches,
        workers=sum(worker != NOWHERE for worker in longest),
        decode_ns=sum(row.decode_ns for row in longest.values()) / batches,
        collate_ns=sum(row.collate_ns for row in longest.values()) / batches,
        pin_ns=sum(row.pin_ns for row in longest.values()) / batches,
    )


def loading_lines(case: Case) -> Iterator[str]:
    """Yields a sentence for each loader that feeds training on rank 0, and one on how its batches are copied."""
    told = False
    for row in training_rows(case.first) if case.ranks else ():
        found, place = loading_of(case.first, row.index), line_that_made(case, row)
        if found is not None:
            told = True
            where = f" (line {place.line})" if place is not None else ""
            yield f"Making one batch of the training data{where} takes {found.text()}{found.by_whom()}."
    if told:
        yield f"{copying(case)}."


def copying(case: Case) -> str:
    """Returns a sentence on the time to copy a step's batches to the GPU on rank 0, by GPU records or by the host."""
    rank = case.first
    if case.run.spec.on_cpu:
        return "Copying the batch to the GPU was not measured: a CPU stands in for it"
    devices = rank.record.model.devices if rank.record.model is not None else ()
    if not devices:
        return "Whether the batch is copied to a GPU was not seen"
    if not any("cuda" in device for device in devices):
        return "No copy: the batch stays on the CPU"
    try:
        windows = [window for window in settled_windows(case) if window.batches]
    except Abstain as reason:
        return f"Copying the batch to the GPU was not measured: {reason}"
    fresh = [[note for note in window.all(CopyNote) if not note.again] for window in windows]
    if not any(fresh):
        return "No copy of the batch to the GPU was seen in the steps that were looked at"
    host = seconds_text(median(sum(note.duration_ns for note in notes) for notes in fresh) * NANO)
    work = rank.rows(DeviceWorkRow)
    on_gpu = sum(ns for name, (_, ns) in work[-1].copies.items() if "HtoD" in name) / work[-1].steps if work else 0.0
    told = f"Copying to the GPU takes {host} of a step on the host"
    return f"{told}, {seconds_text(on_gpu * NANO)} by the GPU's records" if on_gpu else told
