"""The HTML report in a real browser: themes, hovering, copying, links; nothing asked of a network, no complaint."""

import csv
import io
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
from browser import Browser, find_browser
from specimen import specimen

from scalewise.report.write import write_document

PROGRAM = find_browser()
pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="no Chromium was found; on Debian: apt-get install chromium (see CONTRIBUTING.md)"
)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The specimen, opened; its first table has raw rows to link to."""
    folder = tmp_path_factory.mktemp("page")
    raw = folder / "runs" / "a-ranks1-r0"
    raw.mkdir(parents=True)
    (raw / "rank0.jsonl").write_text("{}\n")
    (path,) = write_document(specimen(), folder / "runs", folder / "reports", ("html",), lambda _: None)
    assert PROGRAM is not None
    browser = Browser(PROGRAM, folder / "profile")
    try:
        browser.resize(1100, 900)
        browser.open(path.resolve().as_uri())
        yield browser
    finally:
        browser.close()


def background(page: Browser) -> str:
    return str(page.run("getComputedStyle(document.body).backgroundColor"))


def test_the_button_switches_between_light_and_dark_and_back(page):
    light = background(page)
    page.point_at("#theme", click=True)
    dark = background(page)
    page.point_at("#theme", click=True)

    assert light == "rgb(254, 254, 254)" and dark == "rgb(22, 24, 28)"
    assert background(page) == light


def test_the_system_s_wish_for_dark_is_followed(page):
    page.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    page.run("document.documentElement.removeAttribute('data-theme')")
    assert background(page) == "rgb(22, 24, 28)"
    assert page.run("getComputedStyle(document.querySelector('svg.plot text, svg.plot g')).color") != "rgb(26, 26, 26)"
    page.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])


@pytest.mark.parametrize(
    ("selector", "shown"),
    [
        ("#figure1 .hit:nth-of-type(6)", "small: 1.52 [1.42, 1.61] (speedup) at 2 (ranks)"),
        ("#figure5 .hit:nth-of-type(2)", "1 rank, forward: 1.2 (ms per step)"),
        ("#figure7 .hit:nth-of-type(1)", "logical:0, forward: 0 to 2"),
        ("#table1 tbody tr:nth-child(2) td:nth-child(3)", "19.4; 95 % interval 18.8 to 20.1; measured"),
        ("#table1 tbody tr:nth-child(5) td:nth-child(3)", "failed; Rank 1 ran out of memory."),
    ],
)
def test_hovering_shows_value_interval_and_mark(page, selector, shown):
    page.point_at(selector)
    page.until("!document.getElementById('tip').hidden")

    assert shown in page.run("document.getElementById('tip').textContent")


def test_a_table_can_be_copied_as_csv(page):
    page.ask("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    page.point_at("#table1 button.copy", click=True)
    page.until("document.querySelector('#table1 button.copy').textContent === 'Copied'")
    rows = list(csv.reader(io.StringIO(page.run("navigator.clipboard.readText()"))))

    assert rows[0][:3] == ["case", "ranks", "time/step (ms)"]
    assert rows[2][:5] == ["small", "2", "19.4", "18.8", "20.1"]


def test_raw_rows_are_linked_where_they_are(page):
    links = page.run("[...document.querySelectorAll('#table1 td.raw a')].map((link) => link.href)")

    assert len(links) == 1, "the other runs of the table have no folder"
    assert Path(unquote(urlparse(links[0]).path)).read_text() == "{}\n"


@pytest.mark.parametrize("width", [360, 768, 1600])
def test_nothing_sticks_out_of_the_window(page, width):
    page.resize(width, 900)
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    page.resize(1100, 900)


def test_names_from_scripts_stay_text(page):
    assert page.run("document.querySelectorAll('script').length") == 1
    assert "<script>alert('1')</script>" in page.run("document.querySelector('#s3 h2').textContent")


def test_the_page_is_silent_and_asks_nothing_of_a_network(page):
    assert page.complaints() == []
