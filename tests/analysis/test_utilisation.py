"""Every share is worked out from counted work, measured peak and timed steps, or refused with a reason that is true."""

from dataclasses import replace

import pytest

from factories import make_machine, make_outcome, make_run, make_suite
from scalewise.analysis.summary import summarise
from scalewise.records.codec import json_value
from scalewise.records.inspection import HOST, CpuTimeRow, ProfileRow, WorkRow
from scalewise.records.machine import PeakRates
from scalewise.records.spec import Inspected

STEP = 0.01
PEAKS = PeakRates("cpu", "cpu", 1, 1, "2.13.0", 1.0, {"float32": 1e11, "bfloat16": 2e11}, 1e10)
WORK = WorkRow(3, "dispatch", {"float32": 4 * 10**8}, {}, 10**7, 5 * 10**6, 10**6)
PROFILE = ProfileRow(5, "cpu", 20_000_000, 15_000_000, 100, {"matmul": 12_000_000, "copy": 3_000_000, HOST: 5_000_000})
TIME = CpuTimeRow(10, 100_000_000, 80_000_000, 1)


def _use(*rows, timed=None, peaks=(PEAKS,), gpus=0, **changes):
    machine = {"gpus": gpus}
    plain = timed or make_run([STEP] * 40, name="one-r0", machine=machine, **changes)
    inspected = make_run([STEP * 3] * 12, kind=Inspected(), name="one-inspect", machine=machine, **changes)
    inspected = replace(
        inspected,
        machine=make_machine(gpus=gpus, peaks=peaks),
        ranks=tuple(replace(rank, utilisation=rows) for rank in inspected.ranks),
    )
    (experiment,) = summarise(make_suite(plain, inspected)).experiments
    return experiment.utilisation[0]


def test_mfu_is_the_time_at_peak_over_the_timed_step():
    found = _use(WORK, PROFILE, TIME)

    assert found.mfu.value == pytest.approx(4e8 / 1e11 / STEP)
    within = found.mfu.interval
    assert within.low <= within.value == found.mfu.value <= within.high and within.level == 0.95
    assert found.flops_per_step == 4e8 and found.achieved_flops_per_second == pytest.approx(4e10)
    assert found.peak_flops_per_second == pytest.approx(1e11)
    assert found.busy.value == pytest.approx(0.8)
    assert found.bandwidth.value == pytest.approx(5e6 / 1e10 / STEP)
    assert [one.family for one in found.families] == ["matmul", HOST, "copy"]
    assert sum(one.share for one in found.families) == pytest.approx(1.0)


def test_each_precision_has_its_own_peak():
    mixed = replace(WORK, flops={"float32": 10**8, "bfloat16": 4 * 10**8})
    found = _use(mixed, PROFILE, TIME)

    assert found.mfu.value == pytest.approx((1e8 / 1e11 + 4e8 / 2e11) / STEP)
    assert found.peak_flops_per_second == pytest.approx(5e8 / (1e8 / 1e11 + 4e8 / 2e11))


def test_recomputation_is_no_work_of_the_model():
    found = _use(replace(WORK, flops={"float32": 5 * 10**8}, recomputed={"float32": 10**8}), PROFILE, TIME)

    assert found.flops_per_step == 4e8 and found.recomputed_flops == 1e8
    assert found.mfu.value == pytest.approx(0.4)


def test_a_share_above_all_is_refused():
    found = _use(
        replace(WORK, flops={"float32": 4 * 10**9}, streamed_bytes=10**9), PROFILE, replace(TIME, cpu_ns=10**9)
    )

    assert found.mfu.value is None and "400 %" in found.mfu.reason
    assert found.bandwidth.value is None and "1000 %" in found.bandwidth.reason
    assert found.busy.value is None and "1000 %" in found.busy.reason


REFUSED = {
    "hidden work": ((WORK, replace(PROFILE, uncounted={"fancy_kernel": 2_000_000}), TIME), "fancy_kernel"),
    "steps differ": (
        (WORK, replace(WORK, step=5, method="profile", flops={"float32": 8 * 10**8}), PROFILE, TIME),
        "different work",
    ),
    "no profile": ((WORK, TIME), "no step was profiled"),
    "nothing counted": ((replace(WORK, flops={}), PROFILE, TIME), "no operator was seen"),
    "not reached": ((replace(WORK, missing="the script made 2 steps"), PROFILE, TIME), "made 2 steps"),
    "other precision": ((replace(WORK, flops={"int8": 10**8}), PROFILE, TIME), "no peak was measured in int8"),
    "other threads": ((WORK, PROFILE, replace(TIME, threads=3)), "set 3 threads"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_mfu_is_refused_where_it_would_not_be_true(name):
    rows, reason = REFUSED[name]
    found = _use(*rows)

    assert found.mfu.value is None
    assert reason in found.mfu.reason


def test_an_iteration_of_two_optimizers_is_not_one_step():
    rows = {"step": {"samples": None}}
    timed = make_run([STEP] * 40, name="one-r0", **rows)
    turns = tuple(replace(row, optimizer=row.step % 2) for row in timed.ranks[0].steps)
    timed = replace(timed, ranks=(replace(timed.ranks[0], steps=turns),))
    found = _use(WORK, PROFILE, TIME, timed=timed)

    assert found.mfu.value is None and "an iteration has 2 optimizer steps" in found.mfu.reason
    assert found.achieved_flops_per_second is None


def test_little_hidden_work_does_not_matter():
    assert _use(WORK, replace(PROFILE, uncounted={"small": 100_000}), TIME).mfu.value is not None


def test_the_profile_counts_where_dispatch_cannot():
    missing = replace(WORK, flops={}, missing="torch.compile is at work")
    found = _use(
        missing, replace(WORK, step=5, method="profile", operand_bytes=None, streamed_bytes=None), PROFILE, TIME
    )

    assert found.mfu.value == pytest.approx(0.4) and found.flops_by == "profile"
    assert found.bandwidth.value is None


def test_without_a_measured_peak_there_is_no_mfu():
    assert "was not measured" in _use(WORK, PROFILE, TIME, peaks=()).mfu.reason
    other_seat = replace(PEAKS, cores=4, threads=4)
    assert "was not measured" in _use(WORK, PROFILE, TIME, peaks=(other_seat,)).mfu.reason


def test_ranks_that_share_a_device_have_no_mfu():
    assert "share a device" in _use(WORK, PROFILE, TIME, oversubscribed=True).mfu.reason


def test_an_inspected_step_of_another_size_is_not_the_timed_one():
    timed = make_run([STEP] * 40, name="one-r0", samples_in_all=128)

    assert "64 samples and the timed ones 128" in _use(WORK, PROFILE, TIME, timed=timed).mfu.reason


def test_tensors_that_fit_the_cache_tell_nothing_of_memory():
    assert "larger than the cache" in _use(replace(WORK, streamed_bytes=0), PROFILE, TIME).bandwidth.reason


def test_a_gpu_is_busy_while_kernels_run():
    kernels = replace(PROFILE, device="cuda", wall_ns=20_000_000, busy_ns=5_000_000, families={"matmul": 5_000_000})
    peaks = replace(PEAKS, device="cuda", name="H200", cores=0, threads=0)
    found = _use(WORK, kernels, peaks=(peaks,), gpus=1, device="cuda", shares=(), threads_per_rank=None)

    assert found.busy.value == pytest.approx(0.5) and "timed step" in found.busy.method
    assert found.mfu.value == pytest.approx(0.4) and found.families_of == "kernels"
    # Kernels that were slower than the timed step say what they were of their own step.
    slower = replace(kernels, busy_ns=15_000_000)
    found = _use(WORK, slower, peaks=(peaks,), gpus=1, device="cuda", shares=(), threads_per_rank=None)
    assert found.busy.value == pytest.approx(0.75) and "same step" in found.busy.method


def test_an_inspected_run_that_failed_gives_reasons_and_no_figures():
    plain = make_run([STEP] * 40, name="one-r0")
    failed = make_run([STEP], kind=Inspected(), name="one-inspect", outcome=make_outcome("raised", "Rank 0 raised."))
    (experiment,) = summarise(make_suite(plain, failed)).experiments
    (found,) = experiment.utilisation

    assert found.mfu.value is found.busy.value is None and "Rank 0 raised" in found.mfu.reason
    assert json_value(found)["mfu"]["reason"] == found.mfu.reason


def test_an_arm_that_was_not_inspected_has_none():
    (experiment,) = summarise(make_suite(make_run([STEP] * 40, name="one-r0"))).experiments

    assert experiment.utilisation == ()
