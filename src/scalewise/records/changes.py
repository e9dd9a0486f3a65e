"""The changes that can be made to a script from outside, as declared by the file of `watch/changes` that makes each.

Such a file needs torch, which the parent process does not have. So its `CHANGE = Declared(...)` holds literals only and
is read here without importing the file.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

FOLDER = Path(__file__).resolve().parent.parent / "watch" / "changes"
# option: any NAME=VALUE; loader: a DataLoader, counted as they are constructed.
Kind = Literal["seconds", "latency", "rate", "rank", "workers", "loader", "whole", "number", "words", "option"]
AxisValue = str | int | float | bool


@dataclass(frozen=True)
class Declared:
    """The declaration of a change: how it is written and named, and where it has an effect."""

    settings: dict[str, Kind] = field(default_factory=dict)  # in the order in which they are written
    optional: tuple[str, ...] = ()  # those of them that may be left out
    example: str = ""  # as a person writes it; empty: the name alone
    label: str = ""  # `slow rank {seconds} on rank {rank}`; empty: the name and its settings
    short: str = ""  # for narrow tables; empty: the name
    least_ranks: int = 1  # with fewer ranks there is nothing to change
    void_beside: tuple[str, ...] = ()  # changes that leave nothing to change
    cpu_only: str = ""  # why it has no effect on a GPU; empty: it has
    between_steps: bool = False  # it saves time between steps, too, which runs that take turns cannot show
    compiles: bool = False  # the first step takes as long as compiling does
    before_hooks: bool = False  # it is installed inside the watcher's own hooks, not around them
    feeds_first: bool = False  # of a strategy: only the first rank's model is given the batch
    strategies: dict[str, str] = field(default_factory=dict)  # rows of `scalewise strategies`, and the change of each

    @property
    def open(self) -> bool:
        """True if the change takes settings of any name."""
        return "option" in self.settings.values()


UNKNOWN = Declared()  # for a change named in a folder that another version has written


def known_changes() -> tuple[str, ...]:
    """The names of all changes: one for each file."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.py") if not file.stem.startswith("_")))


@cache
def declared(name: str) -> Declared:
    """Returns the declaration in the file of that name; UNKNOWN if there is no such file."""
    file = FOLDER / f"{name}.py"
    if not name.isidentifier() or not file.is_file():
        return UNKNOWN
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        named = isinstance(node, ast.Assign) and [one.id for one in node.targets if isinstance(one, ast.Name)]
        if isinstance(node, ast.Assign) and named == ["CHANGE"] and isinstance(node.value, ast.Call):
            return Declared(**{one.arg: ast.literal_eval(one.value) for one in node.value.keywords if one.arg})
    return UNKNOWN


def label(name: str, settings: Mapping[str, AxisValue]) -> str:
    """A name for tables: `slow rank 20 ms on rank 0`, `no_sync window=4`."""
    known = declared(name)
    if not known.label:
        return " ".join([name, *(f"{key}={value}" for key, value in sorted(settings.items()))])
    shown = {key: _shown(known.settings.get(key), value) for key, value in settings.items()}
    told = known.label
    for key, text in shown.items():
        told = told.replace(f"{{{key}}}", text)
    more = [f"{key}={text}" for key, text in sorted(shown.items()) if f"{{{key}}}" not in known.label]
    return " ".join([told, *more])


def _shown(kind: Kind | None, value: AxisValue) -> str:
    if kind in ("seconds", "latency"):
        return f"{float(value) * 1000:g} ms"
    if kind == "rate":
        return f"{float(value) / 1e9:g} GB/s"
    return f"{value} worker{'' if value == 1 else 's'}" if kind == "workers" else str(value)
