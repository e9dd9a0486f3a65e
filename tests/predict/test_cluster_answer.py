"""What is told beside the predictions of a cluster."""

import pytest

from made_clusters import MadeCluster, made_rows
from scalewise.predict.cluster_answer import Asked, answer_of


def test_the_step_beside_a_prediction_is_that_of_the_largest_placement_and_of_no_other_with_as_many_gpus() -> None:
    rows = made_rows({"net": MadeCluster()}, ((1, 1), (1, 4), (2, 4)), batches=(8.0,))
    (model,) = answer_of(rows, Asked(), "steps.csv").models
    (on_two_nodes,) = [row.step_seconds for row in rows if row.placement.nodes == 2]
    assert (model.anchor.nodes, model.anchor.gpus) == (2, 4)
    assert model.anchor_seconds == pytest.approx(on_two_nodes)
