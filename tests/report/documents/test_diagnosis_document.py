"""Tests of a diagnosis in the terminal and as a page: order, width, completeness, nothing of a script that steers."""

import dataclasses
from html import unescape
from pathlib import Path

import pytest

from browser import Browser, find_browser
from diagnosis_specimen import SCRIPT, specimen_diagnosis
from scalewise.console.output import Output
from scalewise.console.terminal import show_document
from scalewise.doctor.finding import Diagnosis
from scalewise.report.documents.diagnosis_document import diagnosis_document
from scalewise.report.html import html_text, write_page

PROGRAM = find_browser()


def test_a_page_has_each_finding_with_its_line_marked(tmp_path):
    text = html_text(diagnosis_document(specimen_diagnosis(tmp_path)))
    assert text.count('<article class="finding"') == 4
    assert '<span class="here"><span class="no">7</span>        loss.backward()' in text
    assert "train.py:7 in train, train.py:9 in train<pre" in unescape(text), "two lines near each other are shown once"
    assert '<span class="no">8</span>        if (i + 1) % accumulate == 0:' in text
    assert "loss = loss / accumulate\nloss.backward()" in text


def test_findings_that_do_not_count_stand_under_headings_of_their_own(tmp_path):
    text = html_text(diagnosis_document(specimen_diagnosis(tmp_path)))
    order = ["<h2>Found</h2>", "loss-not-divided</h3>", "<h2>Suspected, not proved: ", "<h2>Worth knowing</h2>",
             "<h2>What was checked</h2>", "Not checked (2):"]  # fmt: skip
    places = [text.index(one) for one in order]
    assert places == sorted(places)


def test_what_a_script_wrote_is_never_markup(tmp_path):
    text = html_text(diagnosis_document(specimen_diagnosis(tmp_path)))
    assert "<script>alert" not in text and "<b>slow" not in text and "\x1b" not in text
    assert '# <script>alert("1")</script>' in unescape(text)


def test_a_line_that_has_changed_since_is_quoted_alone(tmp_path):
    diagnosis = specimen_diagnosis(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT.replace("loss.backward()", "(loss / 4).backward()"))
    text = html_text(
        diagnosis_document(
            dataclasses.replace(diagnosis, findings=(dataclasses.replace(diagnosis.findings[0], also=()),))
        )
    )
    assert '<span class="here"><span class="no">7</span>loss.backward()' in text
    assert "(loss / 4).backward()" not in text


def test_nothing_found_has_a_page_as_well(tmp_path):
    path = tmp_path / "new" / "doctor.html"
    write_page(path, diagnosis_document(Diagnosis(str(tmp_path / "train.py"), (), ("same-data",), ())))
    text = path.read_text()
    assert "Nothing wrong was found" in text and "<b>Passed (1):</b> same-data<" in text and "<article" not in text


def test_a_failed_script_s_last_words_are_on_the_page(tmp_path):
    failed = dataclasses.replace(specimen_diagnosis(tmp_path), failure="ValueError: <i>no</i>\udcff")
    write_page(tmp_path / "doctor.html", diagnosis_document(failed))
    assert "ValueError: &lt;i&gt;no&lt;/i&gt;" in (tmp_path / "doctor.html").read_text()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    if PROGRAM is None:
        pytest.skip("no Chromium was found; on Debian: apt-get install chromium (see CONTRIBUTING.md)")
    folder: Path = tmp_path_factory.mktemp("doctor")
    diagnosis = specimen_diagnosis(folder, f"{'train_with_a_long_name_' * 3}.py")
    write_page(folder / "doctor.html", diagnosis_document(diagnosis))
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


@pytest.fixture
def shown(tmp_path, capsys, monkeypatch) -> str:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    show_document(Output(), diagnosis_document(specimen_diagnosis(tmp_path)))
    return capsys.readouterr().out


def test_findings_come_worst_first_then_suspicions_then_notes(shown):
    order = ["WRONG  loss-not-divided", "SLOW  sync-every-micro-batch",
             "Suspected, not proved", "WRONG?  scheduler-per-micro-batch", "Worth knowing",
             "NOTE  group-not-destroyed", "Not checked (2)", "Passed ("]  # fmt: skip
    places = [shown.index(text) for text in order]
    assert places == sorted(places)


def test_each_finding_has_verdict_why_where_price_and_fix(shown):
    assert "The loss is not divided by the 4 micro-batches" in shown
    assert "train.py:7 in train\n          7 | loss.backward()" in shown
    assert "also   train.py:9 in train" in shown
    assert "4 times (95 %: 3.99 to 4.01): the gradient that is applied" in shown
    assert "   fix    loss = loss / accumulate\n          loss.backward()\n" in shown
    assert "proof  shown by running it again with the fix in 10 steps\n          in 10 of 10" in shown
    assert "3.00 MiB: memory that is kept" in shown


def test_it_says_what_passed_and_what_could_not_be_checked_and_why(shown):
    words = " ".join(shown.split())
    assert "1 wrong, 1 slow found, 1 suspicion, 1 note;" in words
    assert "read-every-step, clock-without-synchronise: the script used no GPU Not checked (1)" in words
    assert "Not checked (1): input-bound: needs 8 steps, saw 5 The script ended by itself." in words


def test_it_fits_80_columns_and_needs_no_colour(shown):
    assert all(len(line) <= 80 for line in shown.splitlines() if "/runs" not in line)
    assert "\x1b" not in shown, "what a script wrote must not steer the terminal"
    assert "\\x1b[31mmean" in shown


def test_nothing_found_is_said_plainly(tmp_path, capsys):
    clean = Diagnosis(str(tmp_path / "train.py"), (), ("same-data", "tiny-buckets"), (), steps=5, ranks=2, seconds=1.0)
    show_document(Output(), diagnosis_document(clean))
    out = capsys.readouterr().out
    assert "Nothing wrong was found; 2 checks passed, 0 could not be made." in out
    assert "Passed (2): same-data, tiny-buckets\n" in out


def test_a_script_that_failed_by_itself_is_said_to_have(tmp_path, capsys):
    failed = dataclasses.replace(specimen_diagnosis(tmp_path), failure="ValueError: no such file")
    show_document(Output(), diagnosis_document(failed))
    assert "The script failed by itself:\n    ValueError: no such file\n" in capsys.readouterr().out
