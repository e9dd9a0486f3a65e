"""What page and HTML show of a table alike."""

from dataclasses import replace
from unicodedata import category

from hypothesis import given
from hypothesis import strategies as st
from specimen import MEMORY, TABLE, specimen

from scalewise.report.document import Answer, Cell, Column, Document, Figure, Listing, Paragraph, Section, Table
from scalewise.report.view import (
    groups_of,
    labels_of,
    nonbreaking,
    numbers_of,
    plain_text,
    row_view,
    table_view,
    typeset,
)


def test_a_number_and_its_interval_are_told_apart():
    (cell,) = row_view([Cell("5.03", 5.03, 4.9, 5.2, interval="[4.90, 5.20]")]).cells
    assert (cell.text, cell.interval) == ("5.03", "[4.90,\u00a05.20]")
    assert cell.tip == "5.03; 95 % interval 4.9 to 5.2; measured"


def test_a_mark_on_several_cells_is_said_once_for_the_row():
    row = row_view([Cell("4", 4), Cell("1", 1, mark="oversubscribed"), Cell("–", mark="oversubscribed")])
    assert row.mark == "oversubscribed" and {cell.mark for cell in row.cells} == {""}


def test_different_marks_are_said_cell_by_cell():
    row = row_view(
        [Cell("a"), Cell("1", 1, mark="emulated"), Cell("2", 2, mark="predicted"), Cell("–", mark="missing")]
    )
    assert row.mark == "" and [cell.mark for cell in row.cells] == ["", "emulated", "predicted", ""]


def test_holes_do_not_hide_the_mark_of_the_row_and_a_row_of_holes_is_called_missing():
    missing = [Cell("–", mark="missing")] * 2
    assert row_view([*missing, Cell("1", 1, mark="emulated"), Cell("2", 2, mark="emulated")]).mark == "emulated"
    assert row_view([Cell("4", 4), *missing]).mark == "missing"
    assert row_view([Cell("5", 5, 4, 6, interval="[4, 6]"), *missing]).mark == ""


def test_answers_name_tables_figures_and_listings_by_number_and_no_runs():
    numbers = numbers_of(specimen())
    answer = Answer("", "", "", rests_on=("h1-2-strong-scaling", "speedup", "h3-3-init", "a-run-r0"))
    assert numbers.rests_on(answer) == "Table\u00a01, Figure\u00a01, Listing\u00a02"


def test_the_same_doubt_on_two_cells_is_one_footnote():
    doubt = "Another program used the cores for 64 % of the run."
    rows = ((Cell("1", 1, doubt=doubt), Cell("2", 2)), (Cell("3", 3, doubt="Few steps."), Cell("4", 4, doubt=doubt)))
    view = table_view(Table("t", "T", (Column("a"), Column("b")), rows))
    assert [letter for letter, _ in view.footnotes] == ["a", "b"]
    assert [[cell.footnote for cell in row.cells] for row in view.rows] == [["a", ""], ["b", "a"]]


def test_sections_are_headed_by_the_questions_that_they_answer_and_else_by_numbers():
    answers = (Answer("H1.5A", "?", "Yes."), Answer("H1.5A", "?", "No."), Answer("H1.5B", "?", "No."))
    sections = (
        Section("x", "Delay", answers),
        Section("y", "H1.5A Delay", answers, labelled=False),
        Section("z", "Machine", ()),
    )
    assert labels_of(Document("d", "", (), sections, None)) == ["H1.5A, H1.5B", "", ""]
    assert labels_of(Document("d", "", (), sections[2:] * 2, None)) == ["1", "2"]


def test_the_mark_of_the_first_cell_is_that_of_the_row():
    row = row_view([Cell("2", 2, mark="emulated"), Cell("3"), Cell("4", mark="predicted")])
    assert (row.mark, [cell.mark for cell in row.cells]) == ("emulated", ["", "", "predicted"])
    told = row_view(
        [Cell("21", 21, 18, 24, "predicted", interval="[18, 24]"), Cell("22", 22, 21, 23, interval="[21, 23]")]
    )
    assert (told.mark, told.cells[0].mark) == ("", "predicted"), "a number that was predicted names no row"


@given(st.text())
def test_shown_text_steers_nothing(text):
    assert all(char.isprintable() or char in "\n\t" or category(char) == "Zs" for char in plain_text(text))


@given(st.text())
def test_binding_changes_spaces_and_signs_only(text):
    assert nonbreaking(text).replace("\u00a0", " ") == typeset(text).replace("\u00a0", " ")


def test_numbers_stay_with_their_units():
    assert nonbreaking("19.4 ms [18.8, 20.1] and 5 % of it") == "19.4\u00a0ms [18.8,\u00a020.1] and 5\u00a0% of it"


def test_signs_are_those_of_print():
    assert typeset("4 D^2 L >= 10^9, 8 x 4, n - 1, [-1.2, 3], 5 us, 1.3e-03, +-5 %") == (
        "4 D² L ≥ 10⁹, 8 × 4, n − 1, [−1.2, 3], 5 µs, 1.3\u00a0×\u00a010⁻³, ±5 %"
    )


def test_code_names_and_dates_keep_their_signs():
    for text in ("`x = y - 1 >= 2`", "run-ranks1-r0", "2026-11-16", "max x", "6.18.44-4"):
        assert typeset(text) == text


HALF = Figure("half", "", "", MEMORY, 0.5)
WIDE = Figure("wide", "", "", MEMORY, 1.0)
THIRD = Figure("third", "", "", MEMORY, 1 / 3)
TEXT = Paragraph("text")
ANSWER = Answer("H", "Why?", "Because.")
LISTING = Listing("l", "", "x.py", 1, "x = 1")
NARROW = replace(TABLE, columns=TABLE.columns[:2], rows=tuple(row[:2] for row in TABLE.rows))


def sizes(*blocks) -> list[int]:
    return [len(group) for group in groups_of(blocks)]


def test_figures_share_a_row_while_they_fit():
    assert sizes(HALF, HALF, HALF) == [2, 1]
    assert sizes(THIRD, THIRD, THIRD, THIRD) == [3, 1]
    assert sizes(WIDE, HALF, HALF) == [1, 2]


def test_the_odd_figure_goes_beside_a_narrow_table():
    assert sizes(NARROW, HALF) == [2]
    assert sizes(NARROW, HALF, HALF) == [1, 2]
    assert sizes(TABLE, HALF) == [1, 1]
    assert sizes(NARROW, WIDE) == [1, 1]


def test_a_lone_narrow_figure_draws_the_next_to_its_side_over_text_but_over_nothing_else():
    assert sizes(HALF, ANSWER, HALF) == [2, 1]
    assert sizes(HALF, TEXT, ANSWER, HALF, HALF) == [1, 1, 1, 2]
    assert sizes(HALF, LISTING, HALF) == [1, 1, 1]
    assert sizes(HALF, TABLE, HALF) == [1, 1, 1]
    assert sizes(HALF, ANSWER, WIDE, ANSWER, HALF) == [1, 1, 1, 1, 1]


def test_answers_have_a_row_of_their_own():
    assert sizes(HALF, ANSWER, ANSWER) == [1, 1, 1]


def test_no_block_is_lost():
    blocks = [TEXT, TABLE, HALF, ANSWER, WIDE, HALF, HALF, HALF, ANSWER, NARROW, HALF, TEXT, LISTING]
    found = [block for group in groups_of(blocks) for block in group]
    assert len(found) == len(blocks) and all(block in found for block in blocks)
    assert [block for block in found if block not in (HALF, WIDE)] == [one for one in blocks if one not in (HALF, WIDE)]
