"""How far computing differs is told by rehearsals that do the same work, and by their halves."""

from dataclasses import replace

import pytest

from scalewise.analysis.estimate import QUIET_RUN_CV
from scalewise.predict.compute_noise import compute_spread
from taped_steps import ddp_tape, rehearsal


def test_a_quiet_machine_has_the_spread_that_is_known_of_one():
    assert compute_spread([rehearsal(ddp_tape(2)), rehearsal(ddp_tape(8))]) == QUIET_RUN_CV
    assert compute_spread([]) == QUIET_RUN_CV


def test_rehearsals_of_the_same_work_that_differ_say_so():
    pair = [rehearsal(ddp_tape(2, forward=10e-3)), rehearsal(ddp_tape(8, forward=15e-3))]
    assert compute_spread(pair) == pytest.approx(0.27, abs=0.02)


def test_other_work_and_other_company_may_differ():
    assert compute_spread([rehearsal(ddp_tape(2)), rehearsal(ddp_tape(8, samples=8, forward=5e-3))]) == QUIET_RUN_CV
    crowd = rehearsal(ddp_tape(8, forward=20e-3), company=2)
    assert compute_spread([rehearsal(ddp_tape(2)), crowd]) == QUIET_RUN_CV


def test_a_rehearsal_that_drifts_is_not_steady():
    slow, fast = ddp_tape(forward=12e-3), ddp_tape(forward=10e-3)
    drifting = replace(rehearsal(fast), tapes=(slow,) * 8 + (fast,) * 8)
    assert compute_spread([drifting]) == pytest.approx(0.085, abs=0.01)
