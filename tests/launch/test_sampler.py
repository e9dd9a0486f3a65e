"""Samples of the machine beside a run: true where they can be, absent where they cannot, and never in the way."""

import json
import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from scalewise.launch.sampler import Sampler, read_cpu_times, read_pressure_seconds
from scalewise.records.codec import decode
from scalewise.records.machine import SampleRow

CORES = tuple(sorted(os.sched_getaffinity(0)))


def wait_until_worked(pid: int, seconds: float) -> None:
    """Until that process has had a core for so long, however many others want it."""
    process = psutil.Process(pid)
    enough = sum(process.cpu_times()[:2]) + seconds
    while sum(process.cpu_times()[:2]) < enough:
        time.sleep(0.02)


def burn(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@pytest.mark.processes
def test_a_rank_that_works_is_seen_as_busy_and_not_as_foreign_from_its_first_sample_on(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    with closing(Sampler(path, CORES, False, time.monotonic_ns())) as sampler:
        rank = os.fork()
        if rank == 0:
            burn(60.0)
            os._exit(0)
        for _ in range(2):
            wait_until_worked(rank, 0.5)
            sampler.sample([rank, 0])
        os.kill(rank, 9)
        os.waitpid(rank, 0)
    rows = [decode(SampleRow, json.loads(line)) for line in path.read_text().splitlines()]
    for row, since in zip(rows, (0.0, rows[0].at_seconds), strict=True):
        assert row.rank_busy[0] * (row.at_seconds - since) > 0.45 and row.rank_busy[1] == 0.0
        # Times are counted in ticks of 10 ms by two clocks: what is left over is small against half a second.
        assert row.foreign <= row.busy - row.rank_busy[0] / len(CORES) + 0.05


def test_a_file_that_cannot_be_written_does_not_reach_the_run(tmp_path: Path) -> None:
    for path in (tmp_path / "no" / "folder", Path("/dev/full")):
        with closing(Sampler(path, CORES, False, time.monotonic_ns())) as sampler:
            sampler.sample([os.getpid()])
    assert list(tmp_path.iterdir()) == []


def test_processes_that_have_gone_count_nothing(tmp_path: Path) -> None:
    nobody = 2**22 + 1
    with closing(Sampler(tmp_path / "samples.jsonl", CORES, False, time.monotonic_ns())) as sampler:
        sampler.sample([nobody])
    row = decode(SampleRow, json.loads((tmp_path / "samples.jsonl").read_text()))
    assert row.rank_busy == (0.0,) and row.worker_bytes == (0,)


@pytest.mark.processes
def test_what_a_rank_has_started_counts_for_it_also_once_it_is_over(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    work = "import time\nwhile time.process_time() < 1.0: pass"
    keep = f"import subprocess, sys, time; subprocess.run([sys.executable, '-c', {work!r}]); time.sleep(60)"
    rank = subprocess.Popen([sys.executable, "-c", keep])
    held = "import time; b = b'x' * (50 << 20); print(len(b), flush=True); time.sleep(60)"
    worker = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {held!r}])"
    loading = subprocess.Popen([sys.executable, "-c", worker], stdout=subprocess.PIPE)
    try:
        with closing(Sampler(path, CORES, False, time.monotonic_ns())) as sampler:
            assert loading.stdout is not None and loading.stdout.readline().strip() == str(50 << 20).encode()
            deadline = time.monotonic() + 60
            # The kernel counts user and system time in ticks, each rounded down, so a second may be told as 0.98.
            while sum(psutil.Process(rank.pid).cpu_times()[2:4]) < 0.95 and time.monotonic() < deadline:
                time.sleep(0.05)
            sampler.sample([rank.pid, loading.pid])
    finally:
        for one in (*psutil.Process(rank.pid).children(), *psutil.Process(loading.pid).children(), rank, loading):
            one.kill()
    row = decode(SampleRow, json.loads(path.read_text().splitlines()[0]))
    assert row.rank_busy[0] * row.at_seconds > 0.9
    assert row.worker_bytes[0] == 0 and 50 << 20 < row.worker_bytes[1] < 100 << 20
    for one in (rank, loading):
        one.communicate()


def test_times_only_grow() -> None:
    before, pressure = read_cpu_times(CORES), read_pressure_seconds()
    burn(0.05)
    after = read_cpu_times(CORES)
    assert after.busy_seconds >= before.busy_seconds and after.steal_seconds >= before.steal_seconds
    assert pressure is None or (read_pressure_seconds() or 0.0) >= pressure
    assert read_cpu_times(()).busy_seconds == 0
