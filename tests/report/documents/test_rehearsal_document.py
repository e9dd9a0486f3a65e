"""Tests of a rehearsal as a page: complete, escaped, alone; and in a browser, light and dark, without a complaint."""

from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from browser import Browser, find_browser
from rehearsal_specimen import GIB, answer_of, full_answer, pipeline, shared_model, shifted
from scalewise.console.output import Output
from scalewise.console.terminal import show_document
from scalewise.predict.answer import Refused, RehearsalAnswer
from scalewise.predict.catalogue import named_link
from scalewise.predict.conclusion import Conclusions, conclusions_from
from scalewise.predict.cost import Training
from scalewise.report.documents.rehearsal_document import rehearsal_document
from scalewise.report.html import html_text, write_page
from taped_steps import SLOW

PROGRAM = find_browser()


def page_of(answer: RehearsalAnswer, found: Conclusions) -> str:
    return html_text(rehearsal_document(answer, found))


def full_page() -> str:
    answer = full_answer()
    return page_of(answer, conclusions_from(answer, 2 * GIB, Training(steps=1000, price_per_gpu_hour=2.5)))


def test_a_page_has_two_plots_two_tables_and_every_section():
    text = full_page()
    assert text.count('<svg class="plot"') == 2 and text.count("<table>") == 2
    titles = ["How it scales", "What bounds a step", "Self-check", "What to change at 64 ranks", "Memory", "Cost",
              "What this rests on"]  # fmt: skip
    places = [text.index(f"</span> {title}") for title in titles]
    assert places == sorted(places)


def test_measured_predicted_and_ideal_are_told_apart():
    text = unescape(full_page())
    assert "measured: 79" in text and "predicted: 82" in text and "ideal: as many times as ranks" in text
    assert text.count(">predicted*</") >= 3
    assert "90 % interval" in text and "95 % interval" not in text


def test_every_number_that_rests_on_guesses_is_marked_and_the_mark_explained():
    text = unescape(full_page())
    assert text.count('<span class="chip predicted">predicted*</span>') >= 3
    assert '<span class="chip predicted">predicted</span>' not in text
    assert "Predicted*: rests on guesses, which are told at the end." in text
    for title in ("Where it falls off", "What bounds a step", "Cost"):
        section = text.partition("<main")[2].partition(f"</span> {title}")[2].partition("<h2")[0]
        assert "(predicted*" in section and "(predicted)" not in section and "(predicted," not in section, title


def test_without_guesses_nothing_is_marked_as_one():
    answer = answer_of()
    found = replace(conclusions_from(answer, advice=False), guesses=())
    text = unescape(page_of(answer, replace(found, memory=())))
    assert '<span class="chip predicted">predicted</span>' in text
    assert "predicted*" not in text and "rests on guesses" not in text


def test_what_a_script_wrote_is_never_markup():
    text = full_page()
    assert "<b>train.py</b>" not in text and "<b>train.py</b>" in unescape(text)


def test_nothing_predicted_has_a_page_as_well(tmp_path):
    answer = RehearsalAnswer("train.py", (), "cpu", full_answer().link, refused=(Refused(3, "no."),))
    write_page(tmp_path / "new" / "page.html", rehearsal_document(answer, conclusions_from(answer)))
    text = (tmp_path / "new" / "page.html").read_text()
    assert "3\u00a0ranks: no." in unescape(text) and "<svg" not in text


def test_samples_in_doubt_are_told_right_below_the_table_of_a_page():
    answer = pipeline()
    text = unescape(page_of(answer, conclusions_from(answer, advice=False)))
    assert text.index("Each number of ranks") < text.index("<b>Doubt:</b> Samples are counted") < text.index("<figure")
    assert "Efficiency falls under" not in text and "Efficiency stays above" not in text


def test_a_page_of_one_rank_has_one_row_and_no_plot():
    answer = answer_of((1,))
    text = unescape(page_of(answer, conclusions_from(answer, advice=False)))
    assert "<svg" not in text and "scaling:" not in text
    assert text.partition("Each number of ranks")[2].partition("</table>")[0].count("<tr") == 2


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    if PROGRAM is None:
        pytest.skip("no Chromium was found; on Debian: apt-get install chromium (see CONTRIBUTING.md)")
    folder: Path = tmp_path_factory.mktemp("rehearse")
    answer = answer_of((2, 8, 64, 1024, 16_384))
    write_page(folder / "rehearse.html", rehearsal_document(answer, conclusions_from(answer, 2 * GIB)))
    browser = Browser(PROGRAM, folder / "profile")
    try:
        browser.resize(1000, 900)
        browser.open((folder / "rehearse.html").as_uri())
        yield browser
    finally:
        browser.close()


@pytest.mark.parametrize("width", [360, 1600])
@pytest.mark.processes
def test_a_rehearsal_does_not_stick_out_of_the_window(page, width):
    page.resize(width, 900)
    assert page.run("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.processes
def test_a_point_tells_its_interval_and_the_page_does_not_complain(page):
    page.resize(1000, 900)
    page.point_at("#figure1 .hit")
    page.until("!document.getElementById('tip').hidden")
    assert "predicted" in page.run("document.getElementById('tip').textContent")
    assert page.complaints() == []


@pytest.fixture
def show(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def shown(answer: RehearsalAnswer) -> str:
        found = conclusions_from(answer, 2 * GIB, Training(steps=1000, price_per_gpu_hour=2.5))
        show_document(Output(), rehearsal_document(answer, found))
        return capsys.readouterr().out

    return shown


def test_the_answers_come_in_the_order_of_the_questions(show):
    text = " ".join(show(full_answer()).split())
    order = ["train.py on 2, 8, 64 ranks", "1 measured", "2 predicted*", "64 predicted*", "Efficiency against one rank",
             "Where it falls off", "What bounds a step", "Self-check", "What to change at 64 ranks", "Memory", "Cost",
             "What this rests on", "Refused: 1024 ranks", "runs runs/train"]  # fmt: skip
    places = [text.index(one) for one in order]
    assert places == sorted(places)


def test_one_level_is_told_for_measured_and_predicted_steps_alike(show):
    """The steps that were measured were once shown with 95 % intervals below the words `Intervals are of 90 %`."""
    answer = full_answer()
    text = show(shifted(answer, 0.05))
    assert "Intervals are of 90 %." in text and "95 %" not in text
    assert {answer.base.step.level, *(one.measured.step.level for one in answer.at if one.measured)} == {0.90}
    assert "is likely to last: 2 ranks by -4.9 %, 8 ranks by" in " ".join(text.split())


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
    for title in ("Where it falls off", "What bounds a step", "Cost"):
        section = text.partition(f"\n{title}")[2].partition("\n\n")[0]
        assert "(predicted*" in section and "(predicted)" not in section and "(predicted," not in section, title
    changes = text.partition("\nWhat to change")[2].partition("\n\n")[0]
    assert "All rows are predicted*.\npredicted*: rests on guesses" in changes


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
    assert "All rows are predicted*." in text and "rehearsed, not measured*" in text
    assert "Guess: that one rank alone takes" in text


def test_samples_in_doubt_are_told_right_below_the_table(show):
    text = show(shared_model())
    assert (
        text.index("64  predicted*") < text.index("Doubt: Samples are counted") < text.index("Efficiency against one")
    )
    assert "Where it falls off" not in text


@pytest.mark.parametrize("base", [{}, {"base": None}], ids=["measured", "modelled"])
def test_one_rank_alone_has_one_row_and_nothing_of_scaling(show, base):
    text = show(answer_of((1,), **base))
    assert len([line for line in text.splitlines() if line.startswith("    1 ")]) == 1
    assert "scaling" not in text and "Efficiency against" not in text and "falls" not in text
