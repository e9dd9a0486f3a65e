"""Compares two folders, or two runs that took turns: is B faster than A."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scalewise.analysis.comparison import Comparison, compare_suites
from scalewise.analysis.work import DIFFERENCES
from scalewise.errors import BadRequest
from scalewise.records.load import LoadedSuite, load
from scalewise.records.spec import ARM


def compare(a: Path, b: Path, allow: Sequence[str] = ()) -> tuple[Comparison, ...]:
    """Returns one comparison for each pair of arms; differences in the work that `allow` names do not prevent it."""
    unknown = [name for name in allow if name not in DIFFERENCES]
    if unknown:
        raise BadRequest(f"No difference is called {unknown[0]!r}.", f"There are {', '.join(DIFFERENCES)}.")
    return tuple(compare_suites(*sides(a, b), allow))


def sides(a: Path, b: Path) -> tuple[LoadedSuite, LoadedSuite]:
    """Returns the sides to compare; two runs that took turns with each other stand for all repeats of their arms."""
    whole = load(a), load(b)
    chosen = [side.runs[0] for side in whole if len(side.runs) == 1 and side.runs[0].folder == side.path]
    rings = {(run.folder.resolve().parent, run.spec.turns and run.spec.turns.ring) for run in chosen}
    if len(chosen) < 2 or len(rings) > 1 or chosen[0].spec.turns is None:
        return whole
    together = load(a.resolve().parent).runs
    one, two = (
        replace(side, runs=tuple(other for other in together if other.spec.key(ARM) == run.spec.key(ARM)))
        for side, run in zip(whole, chosen, strict=True)
    )
    return one, two
