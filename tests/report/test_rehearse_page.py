"""Tests of a rehearsal as a page: complete, escaped, alone; and in a browser, light and dark, without a complaint."""

from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from browser import Browser, find_browser

from rehearsal_specimen import GIB, answer_of, full_answer, pipeline
from scalewise.predict.answer import Refused, RehearsalAnswer
from scalewise.predict.conclusion import conclusions_from
from scalewise.predict.cost import Training
from scalewise.report.rehearse_page import rehearse_page, write_rehearse_page

PROGRAM = find_browser()


def full_page() -> str:
    answer = full_answer()
    return rehearse_page(answer, conclusions_from(answer, 2 * GIB, Training(steps=1000, price_per_gpu_hour=2.5)))


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
    assert "* rests on guesses, which are told at the end." in text
    for title in ("How it scales", "What bounds a step", "Cost"):
        section = text.partition("<main")[2].partition(f"</span> {title}")[2].partition("<h2")[0]
        assert "(predicted*" in section and "(predicted)" not in section and "(predicted," not in section, title


def test_without_guesses_nothing_is_marked_as_one():
    answer = answer_of()
    found = replace(conclusions_from(answer, advice=False), guesses=())
    text = unescape(rehearse_page(answer, replace(found, memory=())))
    assert '<span class="chip predicted">predicted</span>' in text
    assert "predicted*" not in text and "rests on guesses" not in text


def test_what_a_script_wrote_is_never_markup():
    text = full_page()
    assert "<b>train.py</b>" not in text and "<b>train.py</b>" in unescape(text)


def test_nothing_predicted_has_a_page_as_well(tmp_path):
    answer = RehearsalAnswer("train.py", (), "cpu", full_answer().link, refused=(Refused(3, "no."),))
    write_rehearse_page(tmp_path / "new" / "page.html", answer, conclusions_from(answer))
    text = (tmp_path / "new" / "page.html").read_text()
    assert "3\u00a0ranks: no." in unescape(text) and "<svg" not in text


def test_samples_in_doubt_are_told_right_above_the_table():
    answer = pipeline()
    text = unescape(rehearse_page(answer, conclusions_from(answer, advice=False)))
    assert text.index("Doubt: Samples are counted") < text.index("Each number of ranks")
    assert "Efficiency falls under" not in text and "Efficiency stays above" not in text


def test_a_page_of_one_rank_has_one_row_and_no_plot():
    answer = answer_of((1,))
    text = unescape(rehearse_page(answer, conclusions_from(answer, advice=False)))
    assert "<svg" not in text and "scaling:" not in text
    assert text.partition("Each number of ranks")[2].partition("</table>")[0].count("<tr") == 2


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    if PROGRAM is None:
        pytest.skip("no Chromium was found; on Debian: apt-get install chromium (see CONTRIBUTING.md)")
    folder: Path = tmp_path_factory.mktemp("rehearse")
    answer = answer_of((2, 8, 64, 1024, 16_384))
    write_rehearse_page(folder / "rehearse.html", answer, conclusions_from(answer, 2 * GIB))
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
