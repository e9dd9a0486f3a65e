"""The HTML report as text: one file, nothing from outside, everything escaped."""

import re
from html.parser import HTMLParser

from specimen import ANATOMY, NASTY, SPEEDUP, hand_in, specimen

from scalewise.report.canvas import Drawing, Hit
from scalewise.report.document import Cell, Column, Document, Figure, Formula, Section, Table
from scalewise.report.draw import draw
from scalewise.report.html import html_text, svg_markup

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
    return html_text(specimen())


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
    assert "19.4" in visible and "[18.8,\u00a020.1]" in visible and "oversubscribed" in visible
    assert 'title="19.4; 95 % interval 18.8 to 20.1; measured; medians of 3 runs; run a-ranks2-r0"' in visible
    assert "<title>small: 1.52 [1.42, 1.61] (speedup) at 2 (ranks)</title>" in visible


def test_figures_have_words_for_those_who_cannot_see_them():
    assert page().count('role="img" aria-label=') == page().count("<figure ") == 17


def test_colours_of_figures_follow_the_theme():
    assert "var(--s1,#12436d)" in page()
    assert not re.findall(r"(?:fill|stroke): #12436d", page())


def test_the_mark_of_a_row_stands_in_its_first_cell_and_each_mark_has_a_look():
    row = re.search(r'<tr class="predicted">.*?</tr>', page())
    assert row and re.match(
        r'<tr class="predicted"><td [^>]*> *<span class="chip predicted">predicted</span> 1<', row[0]
    )
    assert all(
        f"tr.{mark} td {{" in page() for mark in ("predicted", "emulated", "oversubscribed", "failed", "missing")
    )


def test_formulas_are_mathml_where_it_is_sound_and_else_plain():
    text = page()
    assert text.count("<math ") == 1 and "<mfrac>" in text
    assert "S(p) = 1 / (s + (1 - s) / p), s = 0.21" in text
    for unsound in ("<mi>x", "<mi onclick='x'>x</mi>", "<script>x</script>", "<mtext><a href='x'>x</a></mtext>"):
        document = Document("d", "D", (), (Section("s", "S", (Formula("", "plain", unsound),)),), None)
        shown = html_text(document)
        assert unsound not in shown and "plain</p>" in shown


def test_listings_have_their_line_numbers_and_mark_the_lines_that_matter():
    text = page()
    assert "practical8_model_parallel.py, lines 31 to 37." in text
    assert re.findall(r'class="here"><span class="no">(\d+)', text)[-2:] == ["34", "37"]


def test_an_answer_has_its_verdict_first_what_shakes_it_and_how_it_was_decided():
    text = page()
    answer = text[text.index("Is the speedup linear") :].partition("<h3")[0]
    order = ("<b>No: two ranks are slower than one.</b>", "0.700 instead of 2", "▲ Other programs", "<details>")
    assert sorted(order, key=answer.index) == list(order)
    assert 'href="#table3"' in answer and "strong-scaling-ranks2-r0" not in answer


def test_a_report_with_hints_shows_what_to_use_and_not_the_answers():
    text = html_text(hand_in("hints"))
    assert "Use: the speedup at 2 and 4 GPUs in Table 1" in text
    assert text.count('class="ruled"') == 6, "five answers and the summary"
    for answer in ("two ranks are slower", "The upper end of the 95", "1.48 on 4 GPUs"):
        assert answer in html_text(hand_in()) and answer not in text
    assert 'title="1.47959' in text, "tables stay full"


def test_a_table_of_many_columns_is_set_more_tightly_than_one_of_few():
    def markup(columns: int) -> str:
        cell = Cell("1.00", 1.0, 0.5, 1.5, interval="[0.5, 1.5]")
        table = Table("t", "T", (Column("a", "ms"),) * columns, ((cell,) * columns,))
        return html_text(Document("d", "D", (), (Section("s", "S", (table,)),)))

    assert '<table class="dense">' in markup(8) and "<table>" in markup(4)


def test_every_reference_finds_its_target_and_two_figures_share_no_id():
    first = svg_markup(draw(Figure("a", "", "", SPEEDUP)), "f1", "a")
    second = svg_markup(draw(Figure("b", "", "", ANATOMY)), "f2", "b")
    ids = [set(re.findall(r' id="([^"]+)"', one)) for one in (first, second)]

    for markup, own in zip((first, second), ids, strict=True):
        assert set(re.findall(r"(?:url\(#|xlink:href=\"#)([^\")]+)", markup)) <= own
    assert not ids[0] & ids[1]


def test_what_hovering_shows_is_escaped():
    markup = svg_markup(Drawing("<svg></svg>", 10, 10, (Hit(1, 2, 3, 4, NASTY),)), "f1", NASTY)
    assert "<script" not in markup and "&lt;script&gt;" in markup and "\x1b" not in markup
