"""The table of shares fits 80 columns; a share that is not given has its reason below."""

from dataclasses import replace

from factories import make_machine, make_run, make_suite
from scalewise.analysis.summary import summarise
from scalewise.analysis.utilisation import FamilyTime, Share, Utilisation
from scalewise.console.analysis_view import show_analysis
from scalewise.console.output import Output
from scalewise.console.utilisation_view import flops_text, share_text, use_lines
from scalewise.records.inspection import HOST, CpuTimeRow, ProfileRow, WorkRow
from scalewise.records.machine import PeakRates
from scalewise.records.spec import Inspected


def _shown(capsys, *rows) -> str:
    plain = make_run([0.01] * 40, name="one-r0")
    inspected = make_run([0.03] * 12, kind=Inspected(), name="one-inspect")
    peaks = PeakRates("cpu", "cpu", 1, 1, "2.13.0", 1.0, {"float32": 1e11}, 1e10)
    inspected = replace(
        inspected,
        machine=make_machine(peaks=(peaks,)),
        ranks=tuple(replace(rank, utilisation=rows) for rank in inspected.ranks),
    )
    show_analysis(Output(quiet=True), summarise(make_suite(plain, inspected)))
    return capsys.readouterr().out


def test_shares_and_families_are_shown(capsys):
    shown = _shown(
        capsys,
        WorkRow(3, "dispatch", {"float32": 4 * 10**8}, {}, 10**7, 0, 10**6),
        ProfileRow(5, "cpu", 20_000_000, 15_000_000, 100, {"matmul": 15_000_000, HOST: 5_000_000}),
        CpuTimeRow(10, 10**8, 8 * 10**7, 1),
    )

    assert "400 M" in shown and "40.0 G" in shown and "100 G" in shown and "40 %" in shown and "80 %" in shown
    assert "matmul 75 %, host 25 %" in shown
    assert "No bandw. of 1 rank: no tensor is larger than the cache" in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 80


def test_the_largest_names_of_other_are_named():
    families = (FamilyTime("other", 0.5, 0.5), FamilyTime("matmul", 0.3, 0.3))
    row = Utilisation("1 rank", "r", "cuda", families=families, families_of="kernels", other={"fancy_kernel": 0.5})

    assert "other is mostly fancy_kernel, no kernel 20 %" in use_lines([row])[0]


def test_figures_have_three_digits_and_holes_are_holes():
    assert [flops_text(value) for value in (None, 4.61e13, 1.5e15, 999.9e9, 2e4)] == [
        "-",
        "46.1 T",
        "1.50 P",
        "1.00 T",
        "0.02 M",
    ]
    assert [share_text(Share(value)) for value in (None, 0.4, 0.042, 1.0)] == ["-", "40 %", "4.2 %", "100 %"]
