"""Tests of who takes part when the link of a machine is measured, and of a true measurement among two ranks."""

from dataclasses import replace

import pytest

from factories import make_machine
from scalewise.jobs import machine_probes
from scalewise.jobs.machine_probes import known_link, probe_link
from scalewise.jobs.measure import Here
from scalewise.jobs.reporter import SILENT
from scalewise.launch.this_machine import usable_cores
from scalewise.plan.seating import Seating, seating, usual_seating
from scalewise.predict.link import Link, Wire

# The whole measurement makes 300 messages of up to 64 MiB; whether all of it is made does not depend on how much it is.
FEWER = {
    "SIZES": (4, 1 << 10, 1 << 16, 1 << 20),
    "REPEATS": 4,
    "FURTHER_SIZES": (1 << 10, 1 << 20),
    "FURTHER_REPEATS": 3,
    "OVERLAP_SIZES": (1 << 18, 1 << 20),
    "OVERLAP_REPEATS": 3,
}


@pytest.mark.parametrize(
    ("machine", "device", "asked", "seats"),
    [
        (make_machine(16), "cpu", (2, 4, 64), Seating("cpu", (2, 4), 4, 4)),
        (make_machine(16), "cpu", (1024,), Seating("cpu", (2,), 8, 2)),
        (make_machine(2), "cpu", (1, 2, 8), Seating("cpu", (2,), 1, 2)),
        (make_machine(1), "cpu", (2, 8), Seating("cpu", (), 1, 1)),
        (make_machine(16, gpus=1), "cuda", (2, 8), Seating("cuda", (), 0, 1)),
        (make_machine(16, gpus=4), "cuda", (2, 4, 8), Seating("cuda", (2, 4), 0, 4)),
    ],
)
def test_ranks_that_fit_take_part(machine, device, asked, seats):
    assert seating(machine, device, asked) == seats


def test_without_a_question_two_and_four_take_part():
    assert usual_seating(make_machine(16)).counts == (2, 4)
    assert usual_seating(make_machine(16, gpus=8)).counts == (2, 4, 8)


@pytest.mark.skipif(len(usable_cores()) < 2, reason="two ranks need two cores")
@pytest.mark.processes
def test_two_ranks_measure_their_link_and_keep_it(servers, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name, value in {**FEWER, "MOST_SECONDS": 200.0}.items():
        monkeypatch.setattr(machine_probes, name, value)
    machine = replace(make_machine(isa_cap="AVX512_CORE"), cores=usable_cores()[:2])
    here, seats = Here(servers, machine), seating(machine, "cpu", (2,))
    probe = probe_link(here, seats)
    assert (probe.rank_counts, probe.troubles) == ((2,), ())
    assert {point.kind for point in probe.points} == {"all_reduce", "all_gather", "reduce_scatter"}
    assert {one.size_bytes for one in probe.overlaps} == set(FEWER["OVERLAP_SIZES"])
    # On a busy machine few messages may fit no line, and then a kept link would be measured again.
    monkeypatch.setattr(machine_probes, "measured_link", lambda *_: Link("kept", Wire(1e-4, 0.0, 1e9)))
    assert known_link(here, seats, SILENT) == probe
