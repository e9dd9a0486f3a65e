"""What making a batch is spent on, by loader: the dataset itself (decode), collating, pinning; of an examined run."""

from collections.abc import Iterator
from dataclasses import dataclass

from scalewise.doctor.case import Case, RankCase
from scalewise.doctor.loaders import place_of, training_rows
from scalewise.records.examination import LoadingRow
from scalewise.records.notes import NOWHERE
from scalewise.units import NANO, seconds_text


@dataclass(frozen=True)
class Loading:
    """What making one batch takes on average."""

    batches: int
    workers: int  # processes that make batches; 0: the rank itself
    decode_ns: float
    collate_ns: float
    pin_ns: float

    def text(self) -> str:
        """`decode 6.1 ms, collate 0.2 ms`; pinning only where there is any."""
        parts = [("decode", self.decode_ns), ("collate", self.collate_ns)]
        parts += [("pin", self.pin_ns)] if self.pin_ns else []
        return ", ".join(f"{name} {seconds_text(value * NANO)}" for name, value in parts)

    def by_whom(self) -> str:
        """Who makes the batches."""
        if not self.workers:
            return ", in the training process itself"
        return f", in each of {self.workers} workers" if self.workers > 1 else ", in the one worker"


def loading_of(rank: RankCase, loader: int) -> Loading | None:
    """Over all workers of a loader, by the longest count that each of them wrote; None: nothing was measured."""
    longest: dict[int, LoadingRow] = {}
    for row in rank.loading:
        if row.loader == loader and row.batches >= longest.get(row.worker, row).batches:
            longest[row.worker] = row
    batches = sum(row.batches for row in longest.values())
    if not batches:
        return None
    return Loading(
        batches=batches,
        workers=sum(worker != NOWHERE for worker in longest),
        decode_ns=sum(row.decode_ns for row in longest.values()) / batches,
        collate_ns=sum(row.collate_ns for row in longest.values()) / batches,
        pin_ns=sum(row.pin_ns for row in longest.values()) / batches,
    )


def loading_lines(case: Case) -> Iterator[str]:
    """A sentence for each loader that feeds training on rank 0."""
    for row in training_rows(case.first) if case.ranks else ():
        found, place = loading_of(case.first, row.index), place_of(case, row)
        if found is not None:
            where = f" (line {place.line})" if place is not None else ""
            yield f"Making one batch of the training data{where} takes {found.text()}{found.by_whom()}."
