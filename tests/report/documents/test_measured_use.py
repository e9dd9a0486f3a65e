"""The table of shares fits 80 columns; a share that is not given has its reason below."""

from dataclasses import replace

from factories import make_machine, make_run, make_suite
from scalewise.analysis.summary import summarise
from scalewise.analysis.utilisation import FamilyTime, Utilisation
from scalewise.console.output import Output
from scalewise.console.terminal import show_document
from scalewise.records.inspection import HOST, CpuTimeRow, ProfileRow, WorkRow
from scalewise.records.machine import PeakRates
from scalewise.records.spec import Inspected
from scalewise.report.document import Only
from scalewise.report.documents.measurement_document import measurement_document, use_blocks


def _shown(capsys, *rows) -> str:
    plain = make_run([0.01] * 40, name="one-r0")
    inspected = make_run([0.03] * 12, kind=Inspected(), name="one-inspect")
    peaks = PeakRates("cpu", "cpu", 1, 1, "2.13.0", 1.0, {"float32": 1e11}, 1e10)
    inspected = replace(
        inspected,
        machine=make_machine(peaks=(peaks,)),
        ranks=tuple(replace(rank, utilisation=rows) for rank in inspected.ranks),
    )
    show_document(Output(quiet=True), measurement_document(summarise(make_suite(plain, inspected))))
    return capsys.readouterr().out


def test_shares_and_families_are_shown(capsys):
    shown = _shown(
        capsys,
        WorkRow(3, "dispatch", {"float32": 4 * 10**8}, {}, 10**7, 0, 10**6),
        ProfileRow(5, "cpu", 20_000_000, 15_000_000, 100, {"matmul": 15_000_000, HOST: 5_000_000}),
        CpuTimeRow(10, 10**8, 8 * 10**7, 1),
    )

    assert "Mflop/step" in shown and "400" in shown and "Gflop/s" in shown and "40 %" in shown and "80 %" in shown
    assert "matmul 75 %, host 25 %" in shown
    (row,) = (line for line in shown.splitlines() if line.startswith("1 rank   "))
    assert "?" not in row, "a missing cell does not make a row missing"
    assert "No bandwidth of 1 rank: no tensor is larger than the cache" in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 80


def test_the_largest_names_of_other_are_named():
    families = (FamilyTime("other", 0.5, 0.5), FamilyTime("matmul", 0.3, 0.3))
    row = Utilisation("1 rank", "r", "cuda", families=families, families_of="kernels", other={"fancy_kernel": 0.5})

    (experiment,) = summarise(make_suite(make_run([0.01] * 40))).experiments
    *_, last = use_blocks(replace(experiment, utilisation=(row,)))
    assert isinstance(last, Only) and "other is mostly fancy_kernel, no kernel 20 %" in last.blocks[0].text
