"""A fit of a cluster anchors on what was measured, knows how little it knows, and holds what its intervals claim."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_clusters import FEW, MORE, MadeCluster, made_rows
from scalewise.predict.cluster_fit import UNCHECKED, LinkPriors, fit_cluster
from scalewise.predict.placement import Placement, even_placement

TWO = {"net": MadeCluster(), "wide": MadeCluster(between_seconds=1.5, computing_seconds=0.05)}
FULL = Placement((4, 4))


def half(one) -> float:
    return float(np.log(one.step.high / one.step.low)) / 2


@settings(max_examples=10, deadline=None)
@given(st.floats(0.05, 3.0), st.floats(0.01, 0.3), st.floats(0.4, 0.7))
def test_the_prediction_for_the_anchor_is_the_anchor(between, computing, hidden):
    made = MadeCluster(computing_seconds=computing, between_seconds=between, hidden=hidden)
    rows = made_rows({"net": made})
    fit = fit_cluster(rows)
    for row in rows:
        if row.placement == FULL:
            [one] = fit.predict("net", row.local_batch, [FULL])
            assert one.anchor == FULL
            assert one.step.value == pytest.approx(row.step_seconds, rel=0.04)
            assert one.step.low < row.step_seconds < one.step.high


def test_the_farther_from_what_was_measured_the_wider_the_interval():
    fit = fit_cluster(made_rows(TWO))
    placements = [Placement((4,) * nodes) for nodes in (2, 3, 8, 64)]
    widths = [half(one) for one in fit.predict("wide", 4.0, placements)]
    assert widths == sorted(widths)
    assert widths[1] > 1.2 * widths[0]


def test_three_measured_nodes_narrow_the_interval():
    few, more = fit_cluster(made_rows(TWO)), fit_cluster(made_rows(TWO, (*FEW, (3, 12), (4, 16))))
    [wide], [narrow] = (fit.predict("wide", 4.0, [Placement((4,) * 8)]) for fit in (few, more))
    assert half(narrow) < half(wide)


def test_a_cluster_that_the_law_does_not_fit_gets_a_wider_interval_and_no_refusal():
    rows = made_rows(TWO)
    crooked = tuple(
        replace(
            row, step_seconds=row.step_seconds * (1.8 if row.placement.gpus in (2, 8) else 1.0), exposed_seconds=None
        )
        for row in rows
    )
    straight = replace_exposed(rows)
    [told], [usual] = (fit_cluster(one).predict("net", 4.0, [Placement((4,) * 4)]) for one in (crooked, straight))
    assert half(told) > 1.5 * half(usual)


def replace_exposed(rows):
    return tuple(replace(row, exposed_seconds=None) for row in rows)


def test_intervals_hold_what_they_claim_where_clusters_are_as_the_priors_say():
    chance = np.random.default_rng(7)
    inside = []
    for seed in range(10):
        made = {
            name: MadeCluster(
                computing_seconds=float(chance.uniform(0.03, 0.2)),
                between_seconds=float(chance.uniform(0.2, 1.5)),
                growth=float(chance.normal(0.05, 0.03)),
                company=float(chance.normal(0.02, 0.02)),
                many=many,
            )
            for many in [float(chance.normal(-0.08, 0.13))]
            for name in ("net", "wide", "deep")
        }
        fit = fit_cluster(made_rows(made, noise=0.05, seed=seed))
        for row in made_rows(made, MORE, noise=0.05, seed=100 + seed):
            [one] = fit.predict(row.model, row.local_batch, [row.placement])
            inside.append(one.step.low <= row.step_seconds <= one.step.high)
    assert 0.82 <= np.mean(inside) <= 1.0


def test_too_few_placements_are_told_and_widen_all_intervals():
    fit = fit_cluster(made_rows({"net": MadeCluster()}, ((1, 1), (2, 2)), batches=(4.0,)))
    assert fit.widened == UNCHECKED
    assert not fit.inside_share >= 0


def test_a_named_link_says_what_lies_between_nodes_and_how_little_is_known():
    one_node = tuple(replace(row, parameters=25e6) for row in made_rows(TWO, ((1, 1), (1, 2), (1, 4))))
    slow, quick = (
        fit_cluster(one_node, LinkPriors("named", 0.0, rate, 0.5)).predict("net", 4.0, [FULL])[0]
        for rate in (1e8, 1e10)
    )
    [measured] = fit_cluster(made_rows(TWO)).predict("net", 4.0, [FULL])
    assert slow.step.value > quick.step.value
    assert half(slow) > 2 * half(measured)


def test_the_order_of_placements_is_more_certain_the_farther_they_are_apart():
    fit = fit_cluster(made_rows({"net": MadeCluster(between_seconds=3.0)}))
    small, middle, large = (even_placement(nodes, 4 * nodes) for nodes in (2, 3, 16))
    near, far = fit.certainty("net", 4.0, small, middle), fit.certainty("net", 4.0, small, large)
    assert 0.5 < near <= far <= 1.0
    assert fit.certainty("net", 4.0, large, small) == pytest.approx(1 - far)
