"""The line that says how many runs were inspected, and which of them failed."""

from dataclasses import replace

from factories import make_outcome, make_run, make_suite
from scalewise.analysis.summary import summarise
from scalewise.console.output import Output
from scalewise.console.terminal import show_document
from scalewise.records.inspection import LayerRow
from scalewise.records.spec import Inspected
from scalewise.report.documents.measurement_document import measurement_document


def _shown(capsys, *runs) -> str:
    show_document(Output(quiet=True), measurement_document(summarise(make_suite(*runs))))
    return " ".join(capsys.readouterr().out.split())


def _inspected(name, **changes):
    run = make_run([0.01] * 6, kind=Inspected(), name=name, **changes)
    rows = (LayerRow("a", "Linear", "cpu", 4),)
    return replace(run, ranks=tuple(replace(rank, inspection=rows) for rank in run.ranks))


def test_inspected_runs_are_counted(capsys):
    plain = make_run([0.01] * 40, name="one-r0")

    assert "inspected" not in _shown(capsys, plain)
    assert "1 run was inspected and not timed." in _shown(capsys, plain, _inspected("a-inspect"))
    assert "2 runs were inspected" in _shown(capsys, plain, _inspected("a-inspect"), _inspected("b-inspect"))


def test_a_failed_inspection_is_named(capsys):
    failed = _inspected("a-inspect", outcome=make_outcome("crashed", "Rank 0 raised."))
    shown = _shown(capsys, make_run([0.01] * 40, name="one-r0"), failed)

    assert "1 run was inspected and not timed, 1 of them failed." in shown
    assert "inspection a-inspect shows nothing: Rank 0 raised." in shown
