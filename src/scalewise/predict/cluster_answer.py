"""The answer about a cluster: what larger placements would take, where efficiency falls off, and what it rests on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from scalewise.analysis.estimate import Estimate
from scalewise.predict.cluster_fit import ClusterFit, LinkPriors, PredictedPlacement, fit_cluster
from scalewise.predict.cluster_law import shape_of
from scalewise.predict.cluster_table import MeasuredPlacement
from scalewise.predict.placement import Placement
from scalewise.units import counted, listed

EFFICIENCIES = (0.8, 0.5)
MOST_NODES_SOUGHT = 1024

MANY_NODES = (
    "that three nodes and more send 8 % quicker than two, give or take 15 %: on one public cluster two nodes were "
    "slower than three, on others quicker; a row of three nodes would tell"
)
ONE_ROW_ACROSS = "that messages grow with ranks as on other clusters: between nodes one number of GPUs was measured"
NOT_CHECKED = "that the law holds here: there are too few placements to hold any back and see"
NO_EXPOSED = "the share of a step that is spent waiting: sync_s was not measured, and is what steps leave unexplained"


@dataclass(frozen=True)
class Asked:
    """The placements to predict, and the models and batches; empty: all of them."""

    placements: tuple[Placement, ...] = ()  # empty: two, four and eight times the nodes that were measured
    models: tuple[str, ...] = ()
    local_batches: tuple[float, ...] = ()


@dataclass(frozen=True)
class PlacementRow:
    """One predicted placement beside one GPU and the row before it."""

    predicted: PredictedPlacement
    efficiency: Estimate  # one GPU's step over this one: each GPU has the same batch
    quicker: float | None  # probability of more samples per second than the row above; None: there is none


@dataclass(frozen=True)
class Fall:
    """The number of nodes at which efficiency has fallen below a share; None: it stays above as far as was tried."""

    share: float
    nodes: int | None


@dataclass(frozen=True)
class ModelAnswer:
    """The predictions of one model with one batch."""

    cluster: str
    model: str
    local_batch: float
    alone_seconds: float  # the step of one GPU
    alone_measured: bool  # with this batch; if not, it follows from the law
    anchor: Placement
    anchor_seconds: float | None  # as it was measured with this batch
    rows: tuple[PlacementRow, ...]
    falls: tuple[Fall, ...]


@dataclass(frozen=True)
class ClusterAnswer:
    """All predictions from one table."""

    source: str
    fits: tuple[ClusterFit, ...]
    models: tuple[ModelAnswer, ...]
    guesses: tuple[str, ...]


def answer_of(
    rows: Sequence[MeasuredPlacement], asked: Asked, source: str, link: LinkPriors | None = None
) -> ClusterAnswer:
    """Fits each cluster of the table and predicts what is asked."""
    fits, models, guesses = [], [], []
    for cluster in dict.fromkeys(row.cluster for row in rows):
        own = [row for row in rows if row.cluster == cluster]
        fit = fit_cluster(own, link)
        placements = asked.placements or _further(own)
        fits.append(fit)
        models += list(_models(fit, own, placements, asked))
        guesses += list(_guesses(fit, own, placements))
    return ClusterAnswer(source, tuple(fits), tuple(models), tuple(dict.fromkeys(guesses)))


def _further(rows: Sequence[MeasuredPlacement]) -> tuple[Placement, ...]:
    """Two, four and eight times the most nodes, as full as the fullest one that was measured."""
    nodes = max(row.placement.nodes for row in rows)
    full = max(row.placement.busiest for row in rows)
    return tuple(Placement((full,) * (times * nodes)) for times in (2, 4, 8))


def _models(
    fit: ClusterFit, rows: Sequence[MeasuredPlacement], placements: Sequence[Placement], asked: Asked
) -> Iterator[ModelAnswer]:
    for model in fit.laws:
        if asked.models and model not in asked.models:
            continue
        own = [row for row in rows if row.model == model]
        batches = asked.local_batches or sorted({row.local_batch for row in own})
        for batch in batches:
            yield _model(fit, own, model, batch, placements)


def _model(
    fit: ClusterFit, rows: Sequence[MeasuredPlacement], model: str, batch: float, placements: Sequence[Placement]
) -> ModelAnswer:
    found = fit.predict(model, batch, placements)
    alone = [row.step_seconds for row in rows if row.placement.gpus == 1 and row.local_batch == batch]
    one = Placement((1,))
    base = float(np.mean(alone)) if alone else fit.predict(model, batch, [one])[0].step.value
    anchor = found[0].anchor
    same = [row.step_seconds for row in rows if row.local_batch == batch and row.placement.as_large_as(anchor)]
    told = []
    before: Placement | None = None
    for predicted in found:
        efficiency = predicted.step.through(lambda step: base / step, positive=True)
        quicker = fit.certainty(model, batch, before, predicted.placement) if before else None
        told.append(PlacementRow(predicted, efficiency, quicker))
        before = predicted.placement
    falls = tuple(_fall(fit, model, batch, base, share, placements[-1].busiest) for share in EFFICIENCIES)
    return ModelAnswer(
        cluster=fit.cluster,
        model=model,
        local_batch=batch,
        alone_seconds=base,
        alone_measured=bool(alone),
        anchor=anchor,
        anchor_seconds=float(np.mean(same)) if same else None,
        rows=tuple(told),
        falls=falls,
    )


def _fall(fit: ClusterFit, model: str, batch: float, base: float, share: float, full: int) -> Fall:
    counts = sorted({round(2 ** (half / 2)) for half in range(2 * 10 + 1)} | {MOST_NODES_SOUGHT})
    shape = shape_of([Placement((full,) * count) for count in counts])
    steps = fit.laws[model].steps(shape, np.full(len(counts), batch))
    below = [count for count, step in zip(counts, steps, strict=True) if base / step < share]
    return Fall(share, below[0] if below else None)


def _guesses(fit: ClusterFit, rows: Sequence[MeasuredPlacement], placements: Sequence[Placement]) -> Iterator[str]:
    nodes = max(one.nodes for one in placements)
    if nodes > 2 and not any(law.knows_many for law in fit.laws.values()):
        yield MANY_NODES
    if nodes > 1 and fit.link and not any(row.placement.nodes > 1 for row in rows):
        yield f"that {fit.link} joins the nodes as the catalogue says: nothing was measured between nodes"
    if nodes > 1 and len({row.placement.gpus for row in rows if row.placement.nodes > 1}) == 1:
        yield ONE_ROW_ACROSS
    if not fit.inside_share >= 0:
        yield NOT_CHECKED
    if all(row.exposed_seconds is None for row in rows):
        yield NO_EXPOSED


def believed_text(fit: ClusterFit) -> str:
    """A sentence that says how far off the law was where it could be seen."""
    if not fit.inside_share >= 0:
        return (
            f"{fit.cluster}: too few placements were measured to hold some back and predict them; "
            f"intervals are {100 * (fit.widened - 1):.0f} % wider than the law says."
        )
    inside = f"{100 * fit.inside_share:.0f} % of {counted(fit.held_back, 'row')} that were held back lay inside"
    wider = f", so all intervals are {fit.widened:.1f} times as wide" if fit.widened > 1 else ""
    return f"{fit.cluster}: {inside} the 90 % interval of a law fitted to the others{wider}."


def falls_text(model: ModelAnswer) -> str:
    """A sentence that says from how many nodes on less than 80 and 50 % is left."""
    full = model.rows[-1].predicted.placement.busiest
    told = [
        f"below {100 * fall.share:.0f} % from {counted(fall.nodes, 'node')} on" for fall in model.falls if fall.nodes
    ]
    if not told:
        return f"Efficiency stays above {100 * EFFICIENCIES[0]:.0f} % up to {MOST_NODES_SOUGHT} nodes of {full}."
    return f"Efficiency on nodes of {full} is {listed(told)}."
