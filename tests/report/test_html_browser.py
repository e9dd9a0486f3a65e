"""The HTML report in a real browser: themes, hovering, copying, links; nothing asked of a network, no complaint."""

import csv
import io
import json
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
from specimen import specimen

from browser import Browser, find_browser
from scalewise.report.write import write_document

PROGRAM = find_browser()
pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(
        PROGRAM is None, reason="no Chromium was found; on Debian: apt-get install chromium (see CONTRIBUTING.md)"
    ),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The specimen, opened; its first table has raw rows to link to."""
    folder = tmp_path_factory.mktemp("page")
    raw = folder / "runs" / "a-ranks1-r0"
    raw.mkdir(parents=True)
    (raw / "rank0.jsonl").write_text("{}\n")
    (path,) = write_document(specimen(), folder / "runs", folder / "reports", ("html",), lambda _: None, True)
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
        ("#figure10 .hit:nth-of-type(1)", "logical:0, forward: 0 to 2"),
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


def in_sight(page: Browser, selector: str) -> bool:
    """Whether the element lies in the window and nothing lies over it."""
    return bool(
        page.run(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)});"
            " one.scrollIntoView({block: 'center', inline: 'nearest'});"
            " const box = one.getBoundingClientRect();"
            " const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);"
            " return box.left >= 0 && box.right <= innerWidth && one.contains(top); })()"
        )
    )


def test_on_a_phone_the_mark_of_a_row_stays_in_sight_while_the_table_is_scrolled(page):
    page.resize(400, 800)
    chip = "#table3 tr.predicted .chip"
    assert in_sight(page, chip)
    page.run("document.querySelector('#table3 .scroll').scrollLeft = 10000")
    assert page.run("document.querySelector('#table3 .scroll').scrollLeft") > 100
    assert in_sight(page, chip)
    page.run("document.querySelector('#table3 .scroll').scrollLeft = 0")
    page.resize(1100, 900)


def test_a_table_says_that_it_scrolls_only_where_it_does(page):
    def told() -> bool:
        return bool(page.run("!document.querySelector('#table3 .scrolls').hidden"))

    page.resize(400, 800)
    page.until("!document.querySelector('#table3 .scrolls').hidden")
    page.resize(1280, 900)
    page.until("document.querySelector('#table3 .scrolls').hidden")
    assert not told()
    page.resize(1100, 900)


def test_on_a_phone_letters_of_a_wide_figure_stay_readable(page):
    page.resize(400, 800)
    scale = page.run(
        "Math.min(...[...document.querySelectorAll('svg.plot')]"
        ".map((one) => one.getBoundingClientRect().width / one.viewBox.baseVal.width))"
    )
    assert scale >= 1.39, "letters of 8 points are at least 11 pixels high"
    page.resize(1100, 900)


def test_a_figure_beyond_the_edge_says_that_it_scrolls(page):
    hints = (
        "[...document.querySelectorAll('figure.drawn')].map((one) => [one.querySelector('.scroll'),"
        " one.querySelector('.scrolls')]).map(([place, hint]) =>"
        " [place.scrollWidth > place.clientWidth + 1, !hint.hidden])"
    )
    page.resize(400, 800)
    page.until(f"{hints}.some(([wide, told]) => wide && told)")
    assert all(wide == told for wide, told in page.run(hints))
    page.resize(1280, 900)
    page.until(f"!{hints}.some(([, told]) => told)")
    page.resize(1100, 900)


def test_a_formula_is_laid_out_and_no_head_of_a_table_stands_above_empty_space(page):
    high, wide = page.run(
        "[document.querySelector('mfrac').getBoundingClientRect()].map((box) => [box.height, box.width])[0]"
    )
    assert high > 25 and wide > 15
    for width in (400, 1280):
        page.resize(width, 900)
        heads = "[...document.querySelectorAll('#table1 thead, #table3 thead, #table4 thead')]"
        assert page.run(f"Math.max(...{heads}.map((one) => one.getBoundingClientRect().height))") < 60
    page.resize(1100, 900)


def test_limits_do_not_lie_on_the_sign_of_their_sum(page):
    gap = page.run(
        "(() => { const sum = document.createElement('div');"
        " sum.innerHTML = '<math display=\"block\"><munderover><mo>∑</mo><mi>i</mi><mi>B</mi></munderover></math>';"
        " document.querySelector('main').append(sum);"
        " const [sign, low, high] = [...sum.querySelector('munderover').children];"
        " const found = [low, high].map((one) => parseFloat(getComputedStyle(one).paddingTop));"
        " sum.remove(); return Math.min(...found); })()"
    )
    assert gap > 2


def test_how_an_answer_was_decided_opens(page):
    page.point_at(".answer details summary", click=True)
    page.until("document.querySelector('.answer details').open")


def test_without_being_asked_no_link_leads_out_of_the_file(page, tmp_path):
    (path,) = write_document(specimen(), Path("/nowhere"), tmp_path, ("html",), lambda _: None)
    here = page.run("location.href")
    page.open(path.resolve().as_uri())
    assert page.run("[...document.links].filter((one) => !one.getAttribute('href').startsWith('#')).length") == 0
    assert page.run("[...document.links].every((one) => document.querySelector(one.getAttribute('href')))")
    page.open(here)


def test_names_from_scripts_stay_text(page):
    assert page.run("document.querySelectorAll('script').length") == 1
    assert "<script>alert('1')</script>" in page.run("document.querySelector('#s3 h2').textContent")


def test_the_page_is_silent_and_asks_nothing_of_a_network(page):
    assert page.complaints() == []
