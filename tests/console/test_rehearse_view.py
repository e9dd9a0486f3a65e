"""Tests of a rehearsal in the terminal: every number says what it is, in 80 columns and without colour."""

from dataclasses import replace

import pytest

from rehearsal_specimen import GIB, answer_of, full_answer, shared_model
from scalewise.console.output import Output
from scalewise.console.rehearse_view import show_rehearsal
from scalewise.predict.answer import Refused, RehearsalAnswer
from scalewise.predict.catalogue import named_link
from scalewise.predict.conclusion import conclusions_from
from scalewise.predict.cost import Training
from taped_steps import SLOW


@pytest.fixture
def show(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def shown(answer: RehearsalAnswer) -> str:
        show_rehearsal(
            Output(), answer, conclusions_from(answer, 2 * GIB, Training(steps=1000, price_per_gpu_hour=2.5))
        )
        return capsys.readouterr().out

    return shown


def test_the_answers_come_in_the_order_of_the_questions(show):
    text = show(full_answer())
    order = ["train.py on 2, 8, 64 ranks", "1 measured", "2 predicted*", "64 predicted*", "Efficiency against one rank",
             "Where it falls off", "What bounds a step", "Self-check", "What to change at 64 ranks", "Memory", "Cost",
             "What this rests on", "refused: 1024 ranks", "The runs are in runs/train"]  # fmt: skip
    places = [text.index(one) for one in order]
    assert places == sorted(places)


def test_one_level_is_told_for_measured_and_predicted_steps_alike(show):
    """The steps that were measured were once shown with 95 % intervals below the words `Intervals are of 90 %`."""
    answer = full_answer()
    text = show(replace(answer, spread=replace(answer.spread, shift=0.05)))
    assert "Intervals are of 90 %." in text and "95 %" not in text
    assert {answer.base.step.level, *(one.measured.step.level for one in answer.at if one.measured)} == {0.90}
    assert "All predicted steps are corrected by -4.9 %" in text


@pytest.mark.parametrize("answer", [full_answer(), answer_of((2, 8, 64, 1024, 16_384), samples=512.0,
                                    link=named_link("nvlink3+infiniband-hdrx4", 8))], ids=["full", "many"])  # fmt: skip
def test_it_fits_80_columns_and_needs_no_colour(show, answer):
    text = show(answer)
    assert [line for line in text.splitlines() if len(line.rstrip()) > 80] == []
    assert "\x1b" not in text


def test_every_row_of_the_table_says_what_it_is(show):
    rows = [line for line in show(full_answer()).splitlines() if line[:5].strip().isdigit() and "[" in line[:40]]
    assert len(rows) == 5
    assert all("measured" in row or "predicted" in row for row in rows)


def test_all_lines_that_rest_on_guesses_are_marked(show):
    text = show(full_answer())
    for title in ("Where it falls off", "What bounds a step", "What to change", "Cost"):
        section = text.partition(f"\n{title}")[2].partition("\n\n")[0]
        assert "(predicted*" in section and "(predicted)" not in section and "(predicted," not in section, title


def test_the_plot_has_interval_value_and_measurement(show):
    lines = [line for line in show(full_answer()).splitlines() if line.endswith("|")]
    assert len(lines) == 3
    assert all("*" in line or "@" in line for line in lines)
    assert "o" in lines[0].split("|")[1] and "(" in lines[0] and ")" in lines[0]
    assert lines[0].index("*") > lines[1].index("*") > lines[2].index("*"), "efficiency falls"


def test_what_a_script_wrote_cannot_steer_the_terminal(show):
    nasty = replace(full_answer(), warnings=("\x1b[31mred",), folder="runs/\x1b[2J")
    text = show(nasty)
    assert "\x1b" not in text and "\\x1b[31mred" in text


def test_an_answer_without_any_prediction_says_why(show):
    text = show(
        RehearsalAnswer("train.py", (), "cpu", SLOW, refused=(Refused(3, "64 samples are not shared by 3 ranks."),))
    )
    assert "3 ranks: 64 samples are not shared by 3 ranks." in text
    assert "What to change" not in text


def test_one_rank_that_was_only_rehearsed_is_not_called_measured(show):
    text = show(answer_of(base=None))
    assert "1 rehearsed*" in text and "rehearsed, not measured*" in text
    assert "guess: that one rank alone takes" in text


def test_samples_in_doubt_are_told_right_below_the_table(show):
    text = show(shared_model())
    assert text.index("64 predicted*") < text.index("Doubt: Samples are counted") < text.index("Efficiency against one")
    assert "Where it falls off" not in text


@pytest.mark.parametrize("base", [{}, {"base": None}], ids=["measured", "modelled"])
def test_one_rank_alone_has_one_row_and_nothing_of_scaling(show, base):
    text = show(answer_of((1,), **base))
    assert len([line for line in text.splitlines() if line.startswith("    1 ")]) == 1
    assert "scaling" not in text and "Efficiency against" not in text and "falls" not in text
