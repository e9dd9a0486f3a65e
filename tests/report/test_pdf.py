"""Pages set by Typst: limits kept by tighter setting, strings never code."""

import json
from dataclasses import replace

from specimen import NASTY, TABLE, specimen

from scalewise.report.document import Document, Formula, Paragraph, Section
from scalewise.report.pdf import SETTINGS, compiler_of, page_data, pdf_bytes


def pages(document: Document, setting) -> int:
    return int(json.loads(compiler_of(document, setting).query("<pages>", field="value", one=True)))


def long_document(paragraphs: int, most_pages: int | None) -> Document:
    words = "Medians with their intervals fill this page line by line. " * 6
    return Document("long", "Long", "", (Section("a", "A", (Paragraph(words),) * paragraphs),), most_pages)


def test_every_block_is_set_and_the_bytes_are_the_same_twice():
    said: list[str] = []
    first = pdf_bytes(specimen(), said.append)

    assert first.startswith(b"%PDF") and first == pdf_bytes(specimen(), said.append)
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

    assert nasty["title"].startswith('#import "x"') and "\x1b" not in nasty["title"]
    (formula,) = [block for block in nasty["blocks"] if block["kind"] == "formula"]
    assert formula["typst"] == "" and formula["plain"].startswith("#import")
    assert NASTY.split(" ")[0] not in compiler_source()


def compiler_source() -> str:
    from scalewise.report.pdf import PAGE

    return PAGE.read_text(encoding="utf-8")


def test_an_invalid_formula_costs_its_own_look_only():
    broken = Document("f", "F", "", (Section("a", "A", (Formula("unknownthing(", "x = y"),)),), None)
    assert pdf_bytes(broken, lambda _: None).startswith(b"%PDF")


def test_a_table_wider_than_the_page_and_an_empty_one_are_set():
    wide = replace(TABLE, columns=TABLE.columns * 4, rows=tuple(row * 4 for row in TABLE.rows))
    empty = replace(TABLE, id="empty", rows=())
    document = Document("w", "W", "", (Section("a", "A", (wide, empty)),), None)
    assert pdf_bytes(document, lambda _: None).startswith(b"%PDF")


def test_the_small_print_is_cut_into_two_columns_of_about_the_same_length():
    blocks = tuple(Paragraph("word " * count) for count in (10, 80, 20, 40, 60))
    section = page_data(Document("d", "D", "", (Section("closing", "C", blocks),), None), SETTINGS[0])["sections"][0]
    left, right = (sum(len(block["text"]) for block in half) for half in section["halves"])

    assert len(section["halves"]) == 2 and abs(left - right) < 150
