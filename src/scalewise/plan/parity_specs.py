"""The runs of a comparison of one rank with several: as they are, given each other's data, and with other rounding."""

from dataclasses import replace
from pathlib import Path

from scalewise.records.spec import Change, Examined, RunSpec

SEED = 20261119
SEEDED = (Change("fixed_seeds", {"seed": SEED}),)
ALWAYS = (*SEEDED, Change("no_dropout"))  # in every run of a comparison of one rank with several


def compared_spec(
    spec: RunSpec,
    name: str,
    steps: int,
    changes: tuple[Change, ...] = (),
    keeps: bool = False,
    shapes: Path | None = None,
    always: tuple[Change, ...] = ALWAYS,
) -> RunSpec:
    """The run that writes the rows of its first steps, and the parameters after the last of them."""
    return replace(
        spec,
        name=name,
        kind=Examined(compared_steps=steps + 1, keeps_given=keeps, shapes=str(shapes) if shapes else ""),
        changes=(*spec.changes, *always, *changes),
        enough_steps=steps + 1,
    )


def given_change(folder: Path, ranks: int, layer: str, order: str = "forward") -> Change:
    """Gives one rank what the ranks of the run in this folder were given."""
    return Change(
        "given_of_all_ranks", {"folder": str(folder.resolve()), "ranks": ranks, "layer": layer, "order": order}
    )


def start_change(folder: Path, ranks: int) -> Change:
    """Starts one rank from the parameters of the ranks of the run in this folder."""
    return Change("start_of_ranks", {"ranks": ranks, "folder": str(folder.resolve())})


def stop_change(steps: int) -> Change:
    """Ends the run after so many steps, before the next."""
    return Change("stop_after", {"steps": steps})


KINKS = Change("across_kinks")


def rounding_change(ranks: int) -> Change:
    """Computes the same in parts, as these ranks do."""
    return Change("other_rounding", {"parts": ranks})
