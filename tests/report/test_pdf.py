"""Pages set by Typst: limits kept by tighter setting, strings never code."""

import json
from bisect import bisect_left
from dataclasses import replace

import pytest
from specimen import MEMORY, NASTY, TABLE, generic, hand_in, specimen

from scalewise.report.document import Answer, Document, Figure, Formula, LinePlot, Paragraph, PlotSeries, Section
from scalewise.report.pdf import (
    FIGURE_SCALES,
    LOWER_FIGURES,
    SETTINGS,
    compiled,
    compiler_of,
    empty_share_of,
    page_data,
    pdf_bytes,
)

LINES = LinePlot("x", "y", (PlotSeries("s", (1.0, 2.0), (1.0, 2.0)),))


def pages(document: Document, setting) -> int:
    return int(json.loads(compiler_of(document, setting).query("<pages>", field="value", one=True)))


def long_document(paragraphs: int, most_pages: int | None) -> Document:
    words = "Medians with their intervals fill this page line by line. " * 6
    return Document("long", "Long", (), (Section("a", "A", (Paragraph(words),) * paragraphs),), most_pages)


def test_every_block_is_set_and_the_bytes_are_the_same_twice():
    said: list[str] = []
    first, second = (compiled(specimen(), SETTINGS[0], said.append).content for _ in range(2))

    assert first.startswith(b"%PDF") and first == second
    assert not said


def test_a_document_over_its_limit_is_set_more_tightly():
    loose, tight = (pages(long_document(22, None), setting) for setting in (SETTINGS[0], SETTINGS[-1]))
    assert loose == 2 and tight == 1
    said: list[str] = []
    fitted = pdf_bytes(long_document(22, 1), said.append)

    assert not said and fitted != pdf_bytes(long_document(22, None), said.append)


def test_a_document_that_cannot_fit_is_still_made_and_that_is_said():
    said: list[str] = []
    assert pdf_bytes(long_document(120, 1), said.append)
    (line,) = said
    assert "long.pdf has" in line and "allows 1" in line


def test_strings_reach_the_page_as_data_and_formulas_with_code_are_shown_in_plain_letters():
    data = page_data(specimen(), SETTINGS[0])
    nasty = data["sections"][2]
    assert "\x1b" not in json.dumps(data, ensure_ascii=False)

    assert nasty["title"].startswith('#import "x"') and "\x1b" not in nasty["title"]
    (formula,) = [block for block in nasty["blocks"] if block["kind"] == "formula"]
    assert formula["typst"] == "" and formula["plain"].startswith("#import")
    assert NASTY.split(" ")[0] not in compiler_source()


def compiler_source() -> str:
    from scalewise.report.pdf import PAGE

    return PAGE.read_text(encoding="utf-8")


def test_a_formula_stays_on_the_page_of_the_table_after_it():
    formula = Formula("T(N)", "T(N)")
    for paragraphs in range(13, 17):
        made = long_document(paragraphs, None)
        document = replace(made, sections=(Section("a", "A", (*made.sections[0].blocks, formula, TABLE)),))
        places = json.loads(compiler_of(document, SETTINGS[0]).query("<places>", field="value"))
        of_formula, of_table = [page for which, page, _ in places if which == "end"][-2:]
        assert of_formula == of_table


def test_the_tightest_settings_put_a_question_into_the_first_line_of_its_answer():
    answer = Answer("H1.1", "Why?", "Because it is so.")
    document = Document("d", "D", (), (Section("a", "A", (answer,) * 20),), None)
    tight = replace(SETTINGS[-1], run_in=False)
    ends = [
        json.loads(compiler_of(document, one).query("<places>", field="value"))[-1] for one in (SETTINGS[-1], tight)
    ]
    assert (ends[0][1], ends[0][2]) < (ends[1][1], ends[1][2])


def test_an_invalid_formula_costs_its_own_look_only():
    broken = Document("f", "F", (), (Section("a", "A", (Formula("unknownthing(", "x = y"),)),), None)
    assert pdf_bytes(broken, lambda _: None).startswith(b"%PDF")


def test_a_table_wider_than_the_page_and_an_empty_one_are_set():
    wide = replace(TABLE, columns=TABLE.columns * 4, rows=tuple(row * 4 for row in TABLE.rows))
    empty = replace(TABLE, id="empty", rows=())
    document = Document("w", "W", (), (Section("a", "A", (wide, empty)),), None)
    assert pdf_bytes(document, lambda _: None).startswith(b"%PDF")


def test_the_small_print_is_cut_into_two_columns_of_about_the_same_length():
    blocks = tuple(Paragraph("word " * count) for count in (10, 80, 20, 40, 60))
    section = page_data(Document("d", "D", (), (Section("closing", "C", blocks),), None), SETTINGS[0])["sections"][0]
    left, right = (sum(len(block["text"]) for block in half) for half in section["halves"])

    assert len(section["halves"]) == 2 and abs(left - right) < 150


def test_how_answers_were_decided_stands_in_an_appendix_that_is_not_counted():
    def document(decided: str, answers: int = 16) -> Document:
        one = Answer("H1.2", "Why?", "Because.", decided=decided)
        return Document("d", "D", (), (Section("a", "A", (one,) * answers), specimen().sections[-1]), None)

    plain, decided = document(""), document("The interval lies below 2. " * 8)
    assert pages(plain, SETTINGS[0]) == pages(decided, SETTINGS[0]) == 1
    data = page_data(decided, SETTINGS[0])
    assert sum(map(len, data["decided"])) == 16 and len(data["appended"]) == 1
    assert [one["title"] for one in data["sections"]] == ["A"], "small print goes to the appendix"
    assert page_data(plain, SETTINGS[0])["appended"] == []


def test_a_report_with_hints_holds_no_answer_and_is_not_squeezed_into_the_limit():
    full, hints = (page_data(hand_in(answers), SETTINGS[0]) for answers in ("full", "hints"))
    assert full["full"] and full["summary"] and sum(map(len, full["decided"])) == 4
    assert not hints["full"] and not hints["summary"] and hints["write_summary"] and hints["decided"] == [[], []]
    said: list[str] = []
    pdf_bytes(replace(hand_in("hints"), most_pages=1), said.append)
    assert not said


def test_the_title_block_says_who_and_leaves_lines_for_what_is_missing():
    fields = page_data(specimen(), SETTINGS[0])["fields"]
    assert [one["label"] for one in fields] == ["Name", "Student number", "Course", "Date", "Machine"]
    assert [bool(one["text"]) for one in fields] == [True, False, True, True, True]
    assert page_data(generic(), SETTINGS[0])["fields"] == []


def test_the_white_end_of_a_page_is_measured_from_where_blocks_end():
    places = [("begin", 1, 60.0), ("end", 1, 400.0), ("begin", 2, 60.0), ("end", 2, 300.0)]
    whole = 297 * 72 / 25.4
    bottom = whole - 19 * 72 / 25.4
    assert empty_share_of(places, 2, SETTINGS[0]) == pytest.approx((bottom - 400) / whole)
    assert empty_share_of([("begin", 1, 60.0), ("end", 2, 100.0)], 2, SETTINGS[0]) == 0, (
        "a block over the end fills the page"
    )
    assert empty_share_of(places, 1, SETTINGS[0]) == 0, "the last page may end anywhere"


def test_figures_are_lowered_where_that_fills_a_page():
    figures = tuple(Figure(f"f{n}", "F", "", MEMORY, 1.0) for n in range(16))
    document = Document("d", "D", (), (Section("a", "A", figures),), None)
    first = compiled(document, SETTINGS[0], print)
    tried = [compiled(document, replace(SETTINGS[0], figures=scale), print) for scale in FIGURE_SCALES]
    chosen = pdf_bytes(document, print)

    assert chosen in [one.content for one in (first, *tried)]
    assert (
        chosen
        == min((one for one in (first, *tried) if one.pages <= first.pages), key=lambda one: one.empty_share).content
    )


def test_two_small_figures_share_the_whole_width_of_their_row():
    figures = tuple(Figure(f"f{n}", "F", "", MEMORY, 1 / 3) for n in range(2))
    (row,) = page_data(Document("d", "D", (), (Section("a", "A", figures),), None), SETTINGS[0])["sections"][0][
        "blocks"
    ]
    assert 0.9 * SETTINGS[0].width_points < sum(one["width"] for one in row["blocks"]) < SETTINGS[0].width_points


def test_figures_are_lowered_before_a_report_exceeds_its_pages():
    def fits(count: int, tight: bool) -> bool:
        scales = [SETTINGS[-1].figures * scale for scale in (LOWER_FIGURES if tight else (1.0,))]
        return min(pages(_figures(count, 1), replace(SETTINGS[-1], figures=one)) for one in scales) == 1

    count = bisect_left(range(30), True, lo=4, key=lambda count: not fits(count, tight=False))
    assert fits(count, tight=True)
    said: list[str] = []
    assert pdf_bytes(_figures(count, 1), said.append) and not said


def _figures(count: int, most_pages: int) -> Document:
    figures = tuple(Figure(f"f{n}", "F", "", LINES, 1.0) for n in range(count))
    return Document("d", "D", (), (Section("a", "A", figures),), most_pages)
