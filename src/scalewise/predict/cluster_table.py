"""Reads a table of steps that were measured on a cluster, a row for each placement, and tells all its mistakes at once.

Columns: `model`, `nodes`, `gpus`, `local_batch`, `step_s`, and, where they are known, `sync_s` (the part of the step in
which a rank waits for gradients after its last one), `placement`, `cluster` and `parameters`.
"""

import csv
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scalewise.errors import BadRequest, did_you_mean
from scalewise.predict.placement import MOST_NODES, MOST_PER_NODE, Placement, even_placement, read_placement
from scalewise.units import with_small, without_stop

NEEDED = ("model", "nodes", "gpus", "local_batch", "step_s")
OPTIONAL = ("sync_s", "placement", "cluster", "parameters")
ONE_CLUSTER = "this cluster"
MOST_TOLD = 8  # problems in one sentence; how many more there are is counted
MOST_LETTERS = 30  # of a value in a sentence
EXAMPLE = """A table is a CSV file with a row for each placement that was measured:
model,nodes,gpus,local_batch,step_s,sync_s
resnet50,1,1,64,0.210,0.001
resnet50,1,4,64,0.225,0.012
resnet50,2,8,64,0.290,0.071
sync_s may be left out or empty. Uneven nodes: a column placement, such as 1124 for nodes with 1, 1, 2 and 4 GPUs."""


@dataclass(frozen=True)
class MeasuredPlacement:
    """One row: the step of a model with its local batch, as it was measured on one placement."""

    cluster: str
    model: str
    placement: Placement
    local_batch: float
    step_seconds: float
    exposed_seconds: float | None  # None: not measured
    parameters: float | None = None  # of the model, whose gradients are sent


def read_cluster_table(path: Path) -> tuple[MeasuredPlacement, ...]:
    """The rows of the table, or one BadRequest with everything that is wrong with it."""
    rows, problems = rows_and_problems(path)
    if not rows and not problems:
        problems = ("it has no rows",)
    if problems:
        raise BadRequest(f"{path}: {_together(problems)}.", EXAMPLE)
    return rows


def rows_and_problems(path: Path) -> tuple[tuple[MeasuredPlacement, ...], tuple[str, ...]]:
    """The rows that can be read, and what is wrong with the others; a BadRequest if it is no table of such columns."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            names = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = names
            lines = [(reader.line_num, _Row(line)) for line in reader if any(map(_text, line.values()))]
    except FileNotFoundError:
        raise BadRequest(f"There is no table {path}.", EXAMPLE) from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadRequest(f"{path} cannot be read as CSV: {error}.", EXAMPLE) from None
    wrong = _column_problems(names)
    if wrong:
        raise BadRequest(f"{path}: {_together(wrong)}.", EXAMPLE)
    read = [(line.measured(), number, line.problems) for number, line in lines]
    rows = tuple(row for row, _, problems in read if row is not None and not problems)
    return rows, tuple(f"line {number}: {problem}" for _, number, problems in read for problem in problems)


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def check_bases(rows: Iterable[MeasuredPlacement], where: str) -> None:
    """Refuses models of which no step of one GPU was measured: nothing then says what computing takes."""
    found = tuple(rows)
    models = dict.fromkeys((row.cluster, row.model) for row in found)
    alone = {(row.cluster, row.model) for row in found if row.placement.gpus == 1}
    without = [
        f"{model} on {cluster}" if cluster != ONE_CLUSTER else model
        for cluster, model in models
        if (cluster, model) not in alone
    ]
    if without:
        raise BadRequest(
            f"{where}: no step of one GPU was measured of {', '.join(without)}, so nothing says what computing takes.",
            "Add a row with nodes 1 and gpus 1 for each model, with its local batch.",
        )


def _column_problems(names: Sequence[str]) -> list[str]:
    missing = [name for name in NEEDED if name not in names]
    near = {
        name: [other for other in names if did_you_mean(other, [name]) and other not in (*NEEDED, *OPTIONAL)]
        for name in missing
    }
    problems = [
        f"the column {name!r} is missing" + (f" (is it {near[name][0]!r}?)" if near[name] else "") for name in missing
    ]
    misspelt = {others[0] for others in near.values() if others}
    for name in names:
        meant = did_you_mean(name, OPTIONAL) if name not in (*NEEDED, *OPTIONAL) and name not in misspelt else ""
        problems += [f"the column {name!r} is not known; {meant}"] if meant else []
    problems += [f"the column {name!r} is there {count} times" for name, count in Counter(names).items() if count > 1]
    return problems


class _Row:
    """Reads one line and collects what is wrong with it."""

    def __init__(self, line: Mapping[str, str | None]) -> None:
        self._line = line
        self.problems: list[str] = []

    def measured(self) -> MeasuredPlacement | None:
        """The row, or None if it cannot be one."""
        nodes = self._number("nodes", whole=True, least=1, most=MOST_NODES)
        gpus = self._number("gpus", whole=True, least=1, most=MOST_NODES * MOST_PER_NODE)
        batch = self._number("local_batch", above=0.0)
        step = self._number("step_s", above=0.0)
        exposed = self._number("sync_s", least=0.0) if self._word("sync_s") else None
        parameters = self._number("parameters", above=0.0) if self._word("parameters") else None
        model = self._word("model")
        if not model:
            self.problems.append("model is empty")
        if step is not None and exposed is not None and exposed >= step:
            self.problems.append(f"sync_s {exposed:g} is not shorter than step_s {step:g}, of which it is a part")
        placement = self._placement(nodes, gpus) if nodes and gpus else None
        if placement is None or batch is None or step is None:
            return None
        cluster = self._word("cluster") or ONE_CLUSTER
        return MeasuredPlacement(cluster, model, placement, batch, step, exposed, parameters)

    def _placement(self, nodes: float, gpus: float) -> Placement | None:
        if gpus < nodes:
            self.problems.append(f"{gpus:g} GPUs cannot be on {nodes:g} nodes")
            return None
        text = self._word("placement")
        if not text:
            return even_placement(int(nodes), int(gpus))
        try:
            found = read_placement(text)
        except BadRequest as problem:
            if nodes == 1:  # more than nine GPUs of one node, written as they are
                return even_placement(1, int(gpus))
            self.problems.append(with_small(without_stop(problem.sentence)))
            return None
        if nodes == 1 and text == f"{gpus:g}":
            return Placement((int(gpus),))
        if (found.nodes, found.gpus) != (nodes, gpus):
            said = f"{found.nodes} nodes with {found.gpus} GPUs"
            self.problems.append(f"placement {text} is {said}, and the row says {nodes:g} with {gpus:g}")
        return found

    def _word(self, name: str) -> str:
        return _text(self._line.get(name))

    def _number(
        self, name: str, whole: bool = False, least: float = -math.inf, above: float = -math.inf, most: float = 1e15
    ) -> float | None:
        text = self._word(name)
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        outside = not least <= value <= most or value <= above
        if not math.isfinite(value) or outside or (whole and value != int(value)):
            kind = "a whole number" if whole else "a number"
            bound = f" above {above:g}" if above > -math.inf else f" from {least:g}"
            self.problems.append(f"{name} must be {kind}{bound}, not {text[:MOST_LETTERS]!r}")
            return None
        return value


def _together(problems: Sequence[str]) -> str:
    more = len(problems) - MOST_TOLD
    return "; ".join(problems[:MOST_TOLD]) + (f"; and {more} more of this kind" if more > 0 else "")
