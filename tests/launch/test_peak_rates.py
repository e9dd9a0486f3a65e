"""Peaks are kept by device, cores and threads, and only grow; a rank measures real ones."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from factories import make_machine, make_spec
from scalewise.launch.peak_rates import all_kept_peaks, keep_peaks, kept_peaks, same_seat, seat_of
from scalewise.plan.experiment import subject_folder
from scalewise.records.machine import PeakRates


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def _peaks(**changes) -> PeakRates:
    seat = seat_of(make_machine(), make_spec())
    return replace(seat, flops_per_second={"float32": 1e11}, copy_bytes_per_second=1e10, **changes)


def test_a_seat_is_its_device_cores_and_threads():
    seat = seat_of(make_machine(), make_spec())

    assert (seat.device, seat.name, seat.cores, seat.threads) == ("cpu", "cpu", 1, 1)
    assert not same_seat(seat, seat_of(make_machine(), make_spec(shares=((0, 1),), threads_per_rank=2)))
    gpu = seat_of(make_machine(gpus=1), make_spec(device="cuda", shares=(), threads_per_rank=None))
    assert (gpu.device, gpu.name, gpu.cores) == ("cuda", "H200", 0)


def test_the_higher_rate_stays():
    keep_peaks(_peaks(made_unix_seconds=1.0))
    kept = keep_peaks(replace(_peaks(made_unix_seconds=2.0), flops_per_second={"float32": 5e10, "float64": 1e9}))

    assert kept.flops_per_second == {"float32": 1e11, "float64": 1e9} and kept.made_unix_seconds == 2.0
    assert kept_peaks(_peaks()) == kept
    assert all_kept_peaks(make_machine()) == (kept,)


def test_peaks_of_another_torch_or_machine_are_not_taken():
    keep_peaks(_peaks())

    assert all_kept_peaks(make_machine(versions={"torch": "2.12.0"})) == ()
    assert all_kept_peaks(make_machine(cpu_model="other")) == ()
    assert kept_peaks(replace(_peaks(), threads=7)) is None


def test_a_damaged_file_is_none(tmp_path):
    keep_peaks(_peaks())
    for path in (tmp_path / "scalewise").iterdir():
        path.write_text("{")

    assert kept_peaks(_peaks()) is None and all_kept_peaks(make_machine()) == ()


@pytest.mark.processes
def test_the_subject_measures_every_precision():
    command = [sys.executable, str(subject_folder() / "peaks.py"), "--seconds", "0.01"]
    said = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=280, check=True).stdout)

    assert {"float32", "bfloat16", "float16", "float64"} == set(said["flops_per_second"]) | set(said["troubles"])
    assert all(rate > 1e6 for rate in said["flops_per_second"].values())
    assert said["copy_bytes_per_second"] > 1e6 and said["threads"] >= 1
