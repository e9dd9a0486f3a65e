"""Tables of clusters that were never measured: steps by a known law, with as much noise as a test asks for."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scalewise.predict.cluster_law import exposed_part, ring_share
from scalewise.predict.cluster_table import MeasuredPlacement
from scalewise.predict.placement import Placement, even_placement

FULL = 4
FEW = ((1, 1), (1, 2), (1, 4), (2, 2), (2, 4), (2, 8))  # nodes and GPUs
MORE = ((3, 12), (4, 16), (8, 32))


@dataclass(frozen=True)
class MadeCluster:
    """The law of a made-up cluster; every figure means what the fitted law means by it."""

    computing_seconds: float = 0.1  # of one sample
    inside_seconds: float = 0.05
    between_seconds: float = 0.6
    company: float = 0.02
    growth: float = 0.05
    many: float = 0.0
    hidden: float = 0.55
    last: float = 0.06

    def step(self, placement: Placement, batch: float) -> tuple[float, float]:
        """The step and its exposed part."""
        gpus, nodes = placement.gpus, placement.nodes
        computing = self.computing_seconds * (1 + batch) * 2 ** (self.company * np.log2(gpus))
        if gpus == 1:
            return computing, 0.0
        seconds = self.inside_seconds if nodes == 1 else self.between_seconds
        seconds *= np.exp(self.growth * np.log2(gpus / 2) + self.many * (nodes > 2))
        sent = np.array([seconds]) * ring_share(np.array([float(gpus)]))
        exposed = float(exposed_part(sent, np.array([self.hidden * computing]), np.array([self.last]))[0])
        return computing + exposed, exposed


def made_rows(
    made: dict[str, MadeCluster],
    placements: Iterable[tuple[int, int]] = FEW,
    batches: Iterable[float] = (2.0, 4.0, 8.0),
    noise: float = 0.0,
    seed: int = 0,
    exposed_known: bool = True,
) -> tuple[MeasuredPlacement, ...]:
    """One row for each model, batch and placement; noise is the standard deviation of a step's logarithm."""
    chance = np.random.default_rng(seed)
    rows = []
    for model, law in made.items():
        for batch in batches:
            for nodes, gpus in placements:
                placement = even_placement(nodes, gpus)
                step, exposed = law.step(placement, batch)
                off = float(np.exp(chance.normal(0.0, noise))) if noise else 1.0
                told = exposed * off if exposed_known else None
                rows.append(MeasuredPlacement("made", model, placement, batch, step * off, told))
    return tuple(rows)


def write_table(path: Path, rows: Iterable[MeasuredPlacement]) -> Path:
    """Writes the rows as a user would."""
    lines = ["cluster,model,nodes,gpus,placement,local_batch,step_s,sync_s"]
    for row in rows:
        placement = "".join(map(str, row.placement.per_node))
        told = "" if row.exposed_seconds is None else f"{row.exposed_seconds:.6g}"
        size = f"{row.placement.nodes},{row.placement.gpus},{placement}"
        lines.append(f"{row.cluster},{row.model},{size},{row.local_batch:g},{row.step_seconds:.6g},{told}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
