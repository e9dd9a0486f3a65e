"""Tests of what a person sees of an analysis in a terminal of 80 columns without colour."""

import pytest

from factories import make_outcome, make_run, make_suite, noisy
from scalewise.analysis.summary import summarise
from scalewise.console.output import Output
from scalewise.console.terminal import show_document
from scalewise.records.spec import Change
from scalewise.report.documents.measurement_document import measurement_document


def seen(capsys, *runs) -> str:
    show_document(Output(), measurement_document(summarise(make_suite(*runs))))
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


def test_no_line_is_wider_than_80_columns_even_with_axes_changes_and_scaling(capsys):
    changed = (Change("remove_communication"),)
    runs = [
        make_run(noisy(60, 0.0123 / ranks, ranks), ranks, axes={"batch": 2048}, changes=change, name=name)
        for ranks in (1, 2, 4)
        for change, name in (((), f"plain-{ranks}"), (changed, f"changed-{ranks}"))
    ]
    text = seen(capsys, *runs)

    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text, "nothing is cut off"


def test_the_table_gives_the_step_its_interval_and_the_speedup_against_a_named_base(capsys):
    text = seen(capsys, make_run(noisy(60, 0.010, 1), 1), make_run(noisy(60, 0.006, 2), 2))

    rows = text[text.index("speedup") :].splitlines()
    one, two = (line for line in rows if line.lstrip().startswith(("1 ", "2 ")) and " ms " in line)
    assert "base" in one and "1.6" in two
    assert "Speedup is against: 1 rank." in text


def test_an_oversubscribed_arm_is_marked_and_has_no_speedup(capsys):
    base, over = make_run(noisy(60, 0.010, 1), 1), make_run(noisy(60, 0.006, 2), 2, oversubscribed=True)
    text = seen(capsys, base, over)

    row = next(line for line in text.splitlines() if line.lstrip().startswith("2*") and "ms" in line)
    assert row.rstrip().endswith("-")
    assert "* oversubscribed: more ranks than shares of cores; not scaling." in text


def test_a_failed_run_says_why(capsys):
    failed = make_run([0.01] * 3, 2, outcome=make_outcome("raised", "rank 1 of 2 raised ValueError: no"))
    text = seen(capsys, make_run(noisy(60, 0.010, 1), 1), failed)

    assert "! 2 ranks: rank 1 of 2 raised ValueError: no (logs: exp-ranks2-r0/)" in text
    assert "failed runs" not in text, "said once"


def test_an_experiment_without_a_single_measured_run_has_no_tables(capsys):
    text = seen(capsys, make_run([0.01] * 3, 1, outcome=make_outcome("raised", "rank 0 of 1 raised ValueError: no")))

    assert "raised ValueError: no" in text
    assert "step" not in text and "skew" not in text


def test_a_single_arm_has_no_columns_of_scaling(capsys):
    text = seen(capsys, make_run(noisy(60, 0.010, 1), 1))

    assert "speedup" not in text.lower() and "serial" not in text


def test_what_the_columns_mean_is_said_once_for_all_experiments_and_the_doubts_are_counted_last(capsys):
    first = make_run(noisy(60, 0.010, 1), 1, experiment="one", name="one")
    second = make_run(noisy(10, 0.010, 1), 1, experiment="two", name="two")
    show_document(Output(), measurement_document(summarise(make_suite(first, second))))
    text = capsys.readouterr().out

    assert text.count("vary: standard deviation") == 1
    assert "DOUBT about 1 of 2 arms: too few steps (1)." in text.rpartition("vary:")[2]


def test_a_number_is_never_parted_from_its_percent_sign(capsys):
    for length in range(60, 80):
        failed = make_run([0.01], outcome=make_outcome("raised", "x" * length + " 78 % of it"))
        assert "78 %" in seen(capsys, failed)


def test_the_same_caveat_of_several_arms_is_said_once(capsys):
    text = seen(capsys, make_run(noisy(10, 0.010, 1), 1), make_run(noisy(10, 0.006, 2), 2))

    assert text.count("IMPRECISE  too few steps") == 1
    assert "too few steps (2 arms)" in text


def test_markup_in_names_is_shown_and_not_obeyed(capsys):
    failed = make_run([0.01], outcome=make_outcome("raised", "rank 0 raised [red]x[/red] \x1b[31m"))
    text = seen(capsys, failed)

    assert "[red]x[/red]" in text
    assert "\x1b" not in text
