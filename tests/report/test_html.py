"""The HTML report as text: one file, nothing from outside, everything escaped."""

import re
from html.parser import HTMLParser
from pathlib import Path

from specimen import specimen

from scalewise.report.html import html_text

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Reader(HTMLParser):
    """Notes tags that are closed in the wrong order, ids, and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self.note(attrs)

    def handle_startendtag(self, tag, attrs):
        self.note(attrs)

    def note(self, attrs):
        self.ids += [value for name, value in attrs if name == "id"]
        self.addresses += [value for name, value in attrs if name in ("href", "src", "xlink:href", "action")]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def page() -> str:
    return html_text(specimen(), Path("/nowhere/runs"), Path("/nowhere/reports"))


def test_the_page_is_well_formed_and_no_id_is_there_twice():
    reader = Reader()
    reader.feed(page())

    assert reader.wrong == [] and reader.open == []
    assert len(reader.ids) == len(set(reader.ids))


def test_the_page_needs_nothing_from_outside():
    text = page()
    reader = Reader()
    reader.feed(text)

    assert all(address.startswith("#") for address in reader.addresses)
    outside = set(re.findall(r"(?:https?:)?//[\w.]+[^\s\"')]*", text)) - {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert not outside and "@import" not in text and "url(http" not in text


def test_nothing_of_a_script_becomes_markup_or_a_placeholder():
    text = page()
    assert text.count("<script") == 1 and "<script>alert" not in text
    assert text.count("{{body}}") > 3, "a name that looks like a placeholder stays as it is"
    assert "\x1b" not in text and "xa0" not in text


def test_everything_can_be_read_without_scripts():
    visible = re.sub(r"<script.*?</script>|<style.*?</style>", "", page(), flags=re.DOTALL)
    assert "19.4" in visible and "[18.8, 20.1]" in visible and "oversubscribed" in visible
    assert 'title="19.4; 95 % interval 18.8 to 20.1; measured; medians of 3 runs; run a-ranks2-r0"' in visible
    assert "<title>small: 1.52 [1.42, 1.61] (speedup) at 2 (ranks)</title>" in visible


def test_figures_have_words_for_those_who_cannot_see_them():
    assert page().count('role="img" aria-label=') == 8


def test_colours_of_figures_follow_the_theme():
    assert "var(--s1,#12436d)" in page()
    assert not re.findall(r"(?:fill|stroke): #12436d", page())
