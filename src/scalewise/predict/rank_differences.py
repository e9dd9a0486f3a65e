"""Compares ranks that were rehearsed side by side: what they send must match, and so should their batches."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from scalewise.predict.rehearsed import WARM_UP_STEPS
from scalewise.records.collectives import KINDS
from scalewise.records.load import Run
from scalewise.records.rehearsal import TapeRow

FROM_RANK_TO_RANK = {one.name for one in KINDS.values() if one.message}


@dataclass(frozen=True)
class RankWork:
    """The usual step of one rehearsed rank."""

    rank: int  # the rank that the process represented
    messages: tuple[tuple[str, int, int], ...]
    samples: float | None


def work_by_rank(run: Run) -> tuple[RankWork, ...]:
    """The usual step of every process of a rehearsed run."""
    found = []
    first = run.spec.rehearsed.rank if run.spec.rehearsed else 0
    for rank in run.ranks:
        taped = [row for row in rank.rehearsal if isinstance(row, TapeRow) and row.step >= WARM_UP_STEPS]
        if not taped:
            continue
        usual = Counter(row.messages for row in taped).most_common(1)[0][0]
        samples = [row.samples for row in rank.steps if row.samples is not None]
        found.append(RankWork(first + rank.rank, usual, median(samples) if samples else None))
    return tuple(found)


def differences(ranks: Sequence[RankWork]) -> tuple[str, ...]:
    """Sentences about what the first of these ranks does differently from another; at most one."""
    said = []
    for other in ranks[1:]:
        first = ranks[0]
        if other.messages != first.messages and _kinds(first) | _kinds(other) <= FROM_RANK_TO_RANK:
            said.append(
                f"ranks {first.rank} and {other.rank} pass on different messages ({_text(first)}; {_text(other)}), as "
                "the stages of a pipeline do: the slower one is predicted"
            )
        elif other.messages != first.messages:
            said.append(
                f"ranks {first.rank} and {other.rank} send different messages ({_text(first)}; {_text(other)}): the "
                "script branches on its rank, and a real run with such ranks may hang"
            )
        elif None not in (first.samples, other.samples) and first.samples != other.samples:
            said.append(
                f"ranks {first.rank} and {other.rank} train on {first.samples:g} and {other.samples:g} samples a step: "
                "the slower one is predicted"
            )
    return tuple(said[:1])


def _kinds(doing: RankWork) -> set[str]:
    return {kind for kind, _, _ in doing.messages}


def _text(doing: RankWork) -> str:
    kinds = Counter(kind for kind, _, _ in doing.messages)
    size = sum(size for _, size, _ in doing.messages)
    return (" and ".join(f"{count} {kind}" for kind, count in kinds.items()) or "none") + f", {size} bytes"
