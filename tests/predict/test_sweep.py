"""A sweep gives what single predictions give, best first, and thousands of them at once."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.analysis.memory_parts import MemoryLine
from scalewise.predict.compute_work import work_line
from scalewise.predict.prediction import Spread, predict
from scalewise.predict.sweep import Grid, Ground, sweep
from scalewise.predict.timeline import Sharing
from scalewise.predict.what_if import among, groups_by_cap, regrouped, with_accumulation, with_batch
from taped_steps import MIB, QUICK, SLOW, ddp_tape, rehearsal

FINE = ddp_tape(buckets=16, bucket_bytes=2 * MIB, per_sample=1e-4)
TAPE = ddp_tape(per_sample=1e-4)
LINE = work_line([rehearsal(ddp_tape(samples=one, per_sample=1e-4)) for one in (16, 32)])
GROUND = Ground(TAPE, LINE, spread=Spread(model=0.03), fine=FINE)


@given(
    ranks=st.sampled_from([2, 8, 100, 16_384]),
    batch=st.sampled_from([0.5, 1.0, 4.0]),
    accumulation=st.sampled_from([1, 2, 4]),
    bucket=st.sampled_from([None, MIB, 10 * MIB]),
    link=st.sampled_from([QUICK, SLOW]),
    sharing=st.builds(Sharing, work=st.floats(0, 1), drag=st.floats(0, 1)),
)
def test_each_row_is_the_single_prediction_of_it(ranks, batch, accumulation, bucket, link, sharing):
    ground = Ground(TAPE, LINE, sharing, Spread(model=0.03), FINE)
    (row,) = sweep(ground, Grid((ranks,), (link,), (batch,), (accumulation,), (bucket,)))
    tape = TAPE if bucket is None else regrouped(FINE, groups_by_cap([2 * MIB] * 16, bucket))
    tape = among(with_batch(with_accumulation(tape, accumulation) if accumulation > 1 else tape, batch, LINE), ranks)
    one = rehearsal(tape)
    alone = predict(one, link, sharing, Spread(link=link.spread, model=0.03))
    assert row.step.value == pytest.approx(alone.step.value, rel=1e-6)
    assert row.step.high == pytest.approx(alone.step.high, rel=1e-6)
    assert row.throughput.value == pytest.approx(alone.throughput, rel=1e-6)


def test_the_best_comes_first_by_what_is_asked_for():
    grid = Grid((2, 8, 64), (QUICK, SLOW), (1.0, 2.0), (1, 2), (None, MIB, 50 * MIB))
    rows = sweep(GROUND, grid)
    assert len(rows) == 3 * 2 * 2 * 2 * 3
    assert [row.throughput.value for row in rows] == sorted((row.throughput.value for row in rows), reverse=True)
    assert rows[0].ranks == 64 and rows[0].link == "quick"
    assert sweep(GROUND, grid, by="per_rank")[0].ranks == 2


def test_what_does_not_fit_comes_last():
    ground = Ground(TAPE, LINE, memory=MemoryLine(2**30, 2**20, "", 32), capacity_bytes=2**30 + 40 * 2**20)
    rows = sweep(ground, Grid((8,), (QUICK,), (1.0, 2.0)))
    assert [(row.batch, row.fits) for row in rows] == [(1.0, True), (2.0, False)]


def test_sizes_of_buckets_need_a_rehearsal_with_small_ones():
    assert sweep(Ground(TAPE, LINE), Grid((8,), (QUICK,), buckets_bytes=(MIB,))) == ()


def test_ten_thousand_combinations_are_one_call_():
    grid = Grid(
        tuple(2**power for power in range(1, 15)),
        tuple(SLOW.__class__(f"link {at}", SLOW.inside, spread=0.05) for at in range(10)),
        (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
        (1, 2, 4),
        (None, MIB, 25 * MIB, 100 * MIB),
    )
    rows = sweep(GROUND, grid)
    assert len(rows) == 14 * 10 * 6 * 3 * 4 > 10_000


def test_a_sweep_is_corrected_by_what_the_checks_showed_as_a_prediction_is():
    grid = Grid((4,), (QUICK,))
    (plain,) = sweep(GROUND, grid)
    (moved,) = sweep(replace(GROUND, spread=Spread(model=0.03, shift=-0.1)), grid)
    assert moved.step.value == pytest.approx(plain.step.value * np.exp(0.1)) and moved.step.level == 0.90
    assert moved.throughput.high == pytest.approx(moved.samples / moved.step.low)
