"""Changes rehearsals to the batch asked for, strong or weak scaling, if the script itself would take another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scalewise.predict.answer import Scaling
from scalewise.predict.compute_work import SAME_BATCH, WorkLine, samples_of, work_line
from scalewise.predict.rehearsed import RehearsedRank
from scalewise.predict.what_if import with_batch


@dataclass(frozen=True)
class ScaledBatches:
    """Rehearsals by number of ranks and their guesses; `other_batch`: those whose batch is not the script's own."""

    found: Mapping[int, RehearsedRank]
    other_batch: frozenset[int] = frozenset()
    guesses: tuple[str, ...] = ()
    problem: str = ""  # why it could not be done as asked


def scaled_batches(
    rehearsals: Mapping[int, RehearsedRank],
    scaling: Scaling,
    others: Sequence[RehearsedRank],
    one_rank_samples: float | None,
) -> ScaledBatches:
    """Rehearsals with the batch asked for: strong, all ranks share it; weak, each has one as large; script, as is."""
    if scaling == "script":
        return ScaledBatches(rehearsals)
    first = rehearsals[min(rehearsals)]
    own = first.typical.samples
    if own is None:
        problem = f"{scaling} scaling cannot be made up: how many samples a step has is not known"
        return ScaledBatches(rehearsals, problem=problem)
    whole = one_rank_samples or (own if scaling == "weak" else own * first.ranks)
    line = work_line([*rehearsals.values(), *others])
    found: dict[int, RehearsedRank] = {}
    other_batch: set[int] = set()
    guesses: list[str] = []
    for ranks, one in rehearsals.items():
        wanted = whole if scaling == "weak" else whole / ranks
        factor = wanted / one.typical.samples if one.typical.samples else 1.0
        if abs(factor - 1) <= SAME_BATCH:
            found[ranks] = one
            continue
        found[ranks] = _with(one, factor, line)
        other_batch.add(ranks)
        guesses += line.beyond(samples_of(one.typical) * factor)
    return ScaledBatches(found, frozenset(other_batch), tuple(dict.fromkeys(guesses)))


def _with(rehearsal: RehearsedRank, factor: float, line: WorkLine) -> RehearsedRank:
    """The rehearsal with another batch; its memory is not known."""
    tapes = tuple(with_batch(tape, factor, line) for tape in rehearsal.tapes)
    return replace(rehearsal.with_tapes(tapes), peak_bytes=None)
