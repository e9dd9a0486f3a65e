"""Tables as CSV and Markdown: exact numbers, and no cell that a program obeys."""

import csv
import io
import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from specimen import NASTY_TABLE, STRONG, TABLE, specimen

from scalewise.report.cells import empty_cell
from scalewise.report.document import Cell, Column, Table
from scalewise.report.tables import csv_text, file_name, json_text, markdown_text, table_files


def rows_of(table: Table) -> list[list[str]]:
    return list(csv.reader(io.StringIO(csv_text(table))))


def test_csv_holds_numbers_intervals_marks_and_runs():
    head, first, second, third, *_ = rows_of(TABLE)

    assert head[:5] == ["case", "ranks", "time/step (ms)", "time/step (ms) low", "time/step (ms) high"]
    assert first[-2:] == ["measured", "a-ranks1-r0 a-ranks1-r1"]
    assert second[1:5] == ["2", "19.4", "18.8", "20.1"]
    assert third[-2] == "oversubscribed"


def test_the_mark_of_a_csv_row_is_that_of_its_numbers_and_an_empty_cell_has_none():
    columns = (Column("ranks"), Column("one", "ms"), Column("many", "ms"), Column("free", "ms"))
    missing = empty_cell("one rank sends nothing")
    wide = {"low": 1.0, "high": 3.0, "interval": "[1, 3]"}
    measured = (Cell("2", 2.0), Cell("2", 2.0, **wide), Cell("2", 2.0, **wide), missing)
    predicted = tuple(replace(cell, mark="predicted") for cell in measured[:3])
    mixed = (predicted[0], measured[1], predicted[2], missing)
    lost = (Cell("4", 4.0, mark="missing"), *(missing,) * 3)
    marks = [row[-2] for row in rows_of(Table("t", "t", columns, (measured, (*predicted, missing), mixed, lost)))[1:]]
    assert marks == ["measured", "predicted", "predicted; measured: one (ms)", "missing"]


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_cell_of_a_csv_begins_a_formula(title, text):
    table = Table("t", "t", (Column(title, numeric=False),), ((Cell(text),),), runs=((text,),))
    cells = [cell for row in rows_of(table) for cell in row]

    assert not [cell for cell in cells if cell[:1] in ("=", "+", "-", "@", "\t", "\r")]


def test_a_negative_number_stays_a_number():
    assert rows_of(NASTY_TABLE)[1][1] == "-3"


@given(st.text(max_size=40))
def test_a_row_of_markdown_stays_one_row_with_the_same_number_of_cells(text):
    table = Table("t", text, (Column("a", numeric=False), Column("b")), ((Cell(text), Cell("1", 1)),), notes=(text,))
    lines = markdown_text(table).split("\n")
    row = lines[4].replace("\\\\", "").replace("\\|", "")

    assert row.count("|") == 3 and "<" not in row


def test_markdown_shows_intervals_and_marks():
    text = markdown_text(TABLE)
    shown = text.replace("\u00a0", " ")
    assert "| small | 2 | 19.4 [18.8, 20.1] | 0.22 [0.21, 0.23] | 11.1 [10.6, 11.7] |" in shown
    assert "| small *oversubscribed* | 4 | 27.7 [24.0, 33.1] | – | – |" in shown
    assert "0.51 [0.49, 0.53] *predicted*" in shown


def test_markdown_has_captions_groups_and_doubts():
    text = markdown_text(STRONG)
    assert text.startswith("**Strong scaling** DIM 1024, DEPTH 2,")
    assert "| **On H200 GPUs over NVLink 4** |  |  |  |  |" in text
    assert "| 24.3<sup>a</sup> [22.2,\u00a026.5] |" in text
    assert "<sup>a</sup> Other programs used 64 % of the cores while this ran.  " in text


@given(st.text(max_size=40))
def test_an_id_becomes_a_name_that_leads_nowhere_else(identity):
    name = file_name(identity)
    assert name and "/" not in name and not name.startswith(".") and name.isascii()


def test_every_table_has_both_files():
    names = ("h1-2-strong-scaling", "nasty-id", "strong", "codes")
    assert set(table_files(specimen())) == {f"{name}.{ending}" for name in names for ending in ("csv", "json", "md")}


def test_a_mark_with_a_star_is_no_markdown():
    table = Table("t", "t", (Column("a"), Column("b")), ((Cell("1", 1.0, mark="predicted*"),) * 2,))
    assert "predicted\\*" in markdown_text(table) and "predicted*" not in markdown_text(table)


def test_json_holds_each_cell_as_the_document_has_it():
    table = json.loads(json_text(TABLE))
    assert [column["title"] for column in table["columns"]] == [column.title for column in TABLE.columns]
    assert [[cell["number"] for cell in row] for row in table["rows"]] == [
        [c.number for c in row] for row in TABLE.rows
    ]
    assert {"text", "low", "high", "level", "mark", "doubt"} <= set(table["rows"][0][0])
    nothing = Table("t", "t", (Column("x"),), ((Cell("-", float("nan")),),))
    assert json.loads(json_text(nothing))["rows"][0][0]["number"] is None
