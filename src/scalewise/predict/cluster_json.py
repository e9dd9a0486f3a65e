"""Writes an answer about a cluster as JSON: predictions, laws in figures, and what they rest on."""

from typing import Any

from scalewise.analysis.summary import to_json
from scalewise.predict.cluster_answer import ClusterAnswer, PlacementRow
from scalewise.predict.cluster_fit import ClusterFit
from scalewise.predict.cluster_law import NAMES
from scalewise.predict.prediction import LEVEL

CLUSTER_SCHEMA = 1


def cluster_json(answer: ClusterAnswer) -> dict[str, Any]:
    """An answer as JSON values, in seconds and shares."""
    told: dict[str, Any] = to_json(
        {
            "schema": CLUSTER_SCHEMA,
            "level": LEVEL,
            "source": answer.source,
            "clusters": [_fit(fit) for fit in answer.fits],
            "models": [
                {
                    "cluster": one.cluster,
                    "model": one.model,
                    "local_batch": one.local_batch,
                    "alone_seconds": one.alone_seconds,
                    "alone_measured": one.alone_measured,
                    "anchor": list(one.anchor.per_node),
                    "anchor_seconds": one.anchor_seconds,
                    "predicted": [_row(row) for row in one.rows],
                    "falls": one.falls,
                }
                for one in answer.models
            ],
            "guesses": answer.guesses,
        }
    )
    return told


def _fit(fit: ClusterFit) -> dict[str, Any]:
    return {
        "cluster": fit.cluster,
        "held_back_rows": fit.held_back,
        "held_back_inside": fit.inside_share if fit.inside_share >= 0 else None,
        "intervals_widened": fit.widened,
        "row_noise_of_computing": fit.noise.computing,
        "row_noise_of_exposed": fit.noise.exposed,
        "laws": {model: {name: law[name] for name in NAMES} for model, law in fit.laws.items()},
    }


def _row(row: PlacementRow) -> dict[str, Any]:
    found = row.predicted
    return {
        "placement": list(found.placement.per_node),
        "nodes": found.placement.nodes,
        "gpus": found.placement.gpus,
        "step": found.step,
        "computing_seconds": found.computing_seconds,
        "exposed_seconds": found.exposed_seconds,
        "samples_per_second": found.samples_per_second,
        "efficiency": row.efficiency,
        "more_samples_than_the_row_before": row.quicker,
    }
