"""Tests of the diagnosis as a page: complete, escaped, alone; and in a browser, light and dark, without a complaint."""

import dataclasses
from html import unescape
from pathlib import Path

import pytest
from browser import Browser, find_browser

from diagnosis_specimen import SCRIPT, specimen_diagnosis
from scalewise.doctor.finding import Diagnosis
from scalewise.report.doctor_page import doctor_page, write_doctor_page

PROGRAM = find_browser()


def test_a_page_has_each_finding_with_its_line_marked(tmp_path):
    text = doctor_page(specimen_diagnosis(tmp_path))
    assert text.count('<article class="finding"') == 4
    assert '<span class="here"><span class="no">7</span>        loss.backward()' in text
    assert "train.py:7 in train, train.py:9 in train<pre" in unescape(text), "two lines near each other are shown once"
    assert '<span class="no">8</span>        if (i + 1) % accumulate == 0:' in text
    assert "loss = loss / accumulate\nloss.backward()" in text


def test_findings_that_do_not_count_stand_under_headings_of_their_own(tmp_path):
    text = doctor_page(specimen_diagnosis(tmp_path))
    order = ["<h2>Found</h2>", "loss-not-divided</h3>", "<h2>Suspected, not proved</h2>", "<h2>Worth knowing</h2>",
             "<h2>What was checked</h2>", "Not checked (2)."]  # fmt: skip
    places = [text.index(one) for one in order]
    assert places == sorted(places)


def test_what_a_script_wrote_is_never_markup(tmp_path):
    text = doctor_page(specimen_diagnosis(tmp_path))
    assert "<script>alert" not in text and "<b>slow" not in text and "\x1b" not in text
    assert '# <script>alert("1")</script>' in unescape(text)


def test_a_line_that_has_changed_since_is_quoted_alone(tmp_path):
    diagnosis = specimen_diagnosis(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT.replace("loss.backward()", "(loss / 4).backward()"))
    text = doctor_page(dataclasses.replace(diagnosis, findings=(dataclasses.replace(diagnosis.findings[0], also=()),)))
    assert '<span class="here"><span class="no">7</span>loss.backward()' in text
    assert "(loss / 4).backward()" not in text


def test_nothing_found_has_a_page_as_well(tmp_path):
    path = tmp_path / "new" / "doctor.html"
    write_doctor_page(path, Diagnosis(str(tmp_path / "train.py"), (), ("same-data",), ()))
    text = path.read_text()
    assert "Nothing wrong was found" in text and "Passed (1)." in text and "<article" not in text


def test_a_failed_script_s_last_words_are_on_the_page(tmp_path):
    failed = dataclasses.replace(specimen_diagnosis(tmp_path), failure="ValueError: <i>no</i>\udcff")
    write_doctor_page(tmp_path / "doctor.html", failed)
    assert "ValueError: &lt;i&gt;no&lt;/i&gt;" in (tmp_path / "doctor.html").read_text()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    if PROGRAM is None:
        pytest.skip("no Chromium was found; on Debian: apt-get install chromium (see CONTRIBUTING.md)")
    folder: Path = tmp_path_factory.mktemp("doctor")
    write_doctor_page(folder / "doctor.html", specimen_diagnosis(folder, f"{'train_with_a_long_name_' * 3}.py"))
    browser = Browser(PROGRAM, folder / "profile")
    try:
        browser.resize(1000, 900)
        browser.open((folder / "doctor.html").as_uri())
        yield browser
    finally:
        browser.close()


@pytest.mark.parametrize("width", [360, 1600])
@pytest.mark.processes
def test_nothing_sticks_out_of_the_window(page, width):
    page.resize(width, 900)
    assert page.run("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.processes
def test_the_page_knows_dark_asks_nothing_of_a_network_and_does_not_complain(page):
    before = page.run("getComputedStyle(document.querySelector('.here')).backgroundColor")
    page.point_at("#theme", click=True)
    assert page.run("getComputedStyle(document.querySelector('.here')).backgroundColor") != before
    assert page.complaints() == []
