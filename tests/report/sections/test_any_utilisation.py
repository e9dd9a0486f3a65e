"""The report's table of shares and its bars of kernel families; gaps carry their reason."""

from dataclasses import replace

import pytest

from factories import make_machine, make_run, make_suite
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.summary import summarise
from scalewise.records.inspection import HOST, CpuTimeRow, ProfileRow, WorkRow
from scalewise.records.machine import PeakRates
from scalewise.records.spec import Inspected
from scalewise.report.document import BarPlot, Figure, Table
from scalewise.report.sections.any_experiment import build

WORK = WorkRow(3, "dispatch", {"float32": 4 * 10**8}, {}, 10**7, 0, 10**6)
PROFILE = ProfileRow(5, "cpu", 20_000_000, 15_000_000, 100, {"matmul": 15_000_000, "copy": 10, HOST: 4_999_990})
PEAKS = PeakRates("cpu", "cpu", 1, 1, "2.13.0", 1.0, {"float32": 1e11}, 1e10)


def _blocks(*rows):
    inspected = make_run([0.03] * 12, kind=Inspected(), name="one-inspect")
    inspected = replace(
        inspected,
        machine=make_machine(peaks=(PEAKS,)),
        ranks=tuple(replace(rank, utilisation=rows) for rank in inspected.ranks),
    )
    loaded = make_suite(make_run([0.01] * 40, name="one-r0"), inspected)
    (section,) = build(Evidence(loaded, summarise(loaded), (), None))
    return {block.id: block for block in section.blocks if isinstance(block, (Table, Figure))}


def test_shares_stand_in_a_table_with_their_intervals_and_reasons():
    table = _blocks(WORK, PROFILE, CpuTimeRow(10, 10**8, 8 * 10**7, 1))["exp-utilisation"]

    (cells,) = table.rows
    assert [column.unit for column in table.columns[1:4]] == ["Mflop", "Gflop/s", "Gflop/s"]
    assert [cell.number for cell in cells[1:6]] == pytest.approx([400, 40, 100, 40.0, 80.0])
    assert cells[4].low <= 40 <= cells[4].high
    assert cells[6].number is None and "larger than the cache" in cells[6].note
    assert any("No bandwidth of 1 rank: no tensor" in note for note in table.notes)
    assert table.runs == (("one-inspect",),)


def test_the_largest_families_are_bars_and_the_others_are_summed_up():
    small = dict.fromkeys(("attention", "convolution", "normalisation", "elementwise", "reduction", "copy"), 500_000)
    figure = _blocks(WORK, replace(PROFILE, families={"matmul": 15_000_000, HOST: 2_000_000, **small}))["exp-families"]

    assert isinstance(figure.plot, BarPlot)
    assert [part.name for part in figure.plot.parts] == [
        "matmul",
        "attention",
        "convolution",
        "normalisation",
        "elementwise",
        HOST,
        "rest",
    ]
    assert sum(part.values[0] for part in figure.plot.parts) == pytest.approx(100)
    assert "operators in the main thread" in figure.caption


def test_without_a_profile_there_are_no_bars():
    blocks = _blocks(WORK, replace(PROFILE, missing="the profiler did not work"))

    assert "exp-utilisation" in blocks and "exp-families" not in blocks
