"""The law of a cluster: its exposed part is the timeline's, and a fit finds again the law that made a table."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_clusters import MadeCluster, made_rows
from scalewise.predict.cluster_law import (
    PRIORS,
    SMOOTH,
    Noise,
    Prior,
    exposed_part,
    fit_law,
    model_rows,
    ring_share,
    shape_of,
)
from scalewise.predict.placement import Placement, even_placement
from scalewise.predict.tape import Compute, Issue, Tape, Wait
from scalewise.predict.timeline import simulate

NOISE = Noise(0.02, 0.05)
WIDE = PRIORS | {"between": Prior(-1.0, 3.0), "inside": Prior(-3.0, 3.0)}


def ddp_step(computing: float, communication: float, buckets: int) -> Tape:
    """A forward of one third, and gradients in buckets that are ready evenly over the backward."""
    entries: list[Compute | Issue | Wait] = [Compute(computing / 3, "forward")]
    for number in range(buckets):
        entries += [Compute(computing * 2 / 3 / buckets, "backward"), Issue(number, "all_reduce", 1.0, 0)]
    entries += [Wait(number) for number in range(buckets)]
    return Tape(tuple(entries), 2, 0, 1.0)


@given(st.floats(0.05, 5.0), st.integers(2, 40))
def test_the_exposed_part_is_what_the_timeline_of_buckets_says(communication, buckets):
    line = simulate(ddp_step(1.0, communication, buckets), lambda _: communication / buckets)
    hidden = 2 / 3 * (1 - 1 / buckets)
    told = exposed_part(np.array([communication]), np.array([hidden]), np.array([1 / buckets]))[0]
    assert told == pytest.approx(line.exposed_seconds, abs=SMOOTH * communication)


def test_a_ring_of_many_sends_a_message_almost_twice_and_one_gpu_sends_nothing():
    assert ring_share(np.array([1.0, 2.0, 4.0, 1e6])) == pytest.approx([0.0, 1.0, 1.5, 2.0], rel=1e-3)


def test_a_fit_finds_the_steps_of_the_law_that_made_them():
    rows = made_rows({"net": MadeCluster()})
    law = fit_law(model_rows(rows), WIDE, NOISE)
    found = law.steps(shape_of([row.placement for row in rows]), np.array([row.local_batch for row in rows]))
    assert found == pytest.approx([row.step_seconds for row in rows], rel=0.03)


def test_batches_between_measured_ones_lie_between_their_steps():
    law = fit_law(model_rows(made_rows({"net": MadeCluster()})), WIDE, NOISE)
    shape = shape_of([Placement((4, 4))] * 3)
    below, between, above = law.steps(shape, np.array([4.0, 6.0, 8.0]))
    assert below < between < above


@settings(max_examples=15, deadline=None)
@given(
    st.floats(0.02, 2.0), st.floats(0.0, 0.08), st.floats(0.0, 0.2), st.floats(0.3, 0.8), st.sampled_from([2.0, 8.0])
)
def test_beyond_what_was_measured_more_nodes_are_never_quicker(between, company, growth, hidden, batch):
    made = MadeCluster(between_seconds=between, company=company, growth=growth, hidden=hidden)
    law = fit_law(model_rows(made_rows({"net": made})), WIDE, NOISE)
    nodes = (3, 4, 6, 8, 16, 64, 256)
    steps = law.steps(shape_of([even_placement(one, 4 * one) for one in nodes]), np.full(len(nodes), batch))
    assert np.all(np.diff(np.log(steps)) > -0.01)


def test_three_nodes_in_the_table_tell_how_many_nodes_send():
    few = made_rows({"net": MadeCluster(many=-0.4)})
    three = made_rows({"net": MadeCluster(many=-0.4)}, ((1, 1), (1, 4), (2, 8), (3, 12)))
    assert not fit_law(model_rows(few), WIDE, NOISE).knows_many
    law = fit_law(model_rows(three), WIDE, NOISE)
    assert law.knows_many
    assert law["many"] < -0.15
