"""What page and HTML show of a table alike."""

from unicodedata import category

from hypothesis import given
from hypothesis import strategies as st
from specimen import specimen

from scalewise.explain.answer import Answer
from scalewise.report.document import Cell
from scalewise.report.view import bound_text, numbers_of, plain_text, row_view, typeset


def test_a_number_and_its_interval_are_told_apart():
    (cell,) = row_view([Cell("5.03 [4.90, 5.20]", 5.03, 4.9, 5.2)]).cells
    assert (cell.text, cell.interval) == ("5.03", "[4.90, 5.20]")
    assert cell.tip == "5.03; 95 % interval 4.9 to 5.2; measured"


def test_a_mark_on_several_cells_is_said_once_for_the_row():
    row = row_view([Cell("4", 4), Cell("1", 1, mark="oversubscribed"), Cell("–", mark="oversubscribed")])
    assert row.mark == "oversubscribed" and {cell.mark for cell in row.cells} == {""}


def test_different_marks_are_said_cell_by_cell():
    row = row_view([Cell("1", 1, mark="emulated"), Cell("2", 2, mark="predicted"), Cell("–", mark="missing")])
    assert row.mark == "" and [cell.mark for cell in row.cells] == ["emulated", "predicted", ""]


def test_holes_do_not_hide_the_mark_of_the_row_and_a_row_of_holes_is_called_missing():
    holes = [Cell("–", mark="missing")] * 2
    assert row_view([*holes, Cell("1", 1, mark="emulated"), Cell("2", 2, mark="emulated")]).mark == "emulated"
    assert row_view([Cell("4", 4), *holes]).mark == "missing"
    assert row_view([Cell("5 [4, 6]", 5, 4, 6), *holes]).mark == ""


def test_answers_name_tables_by_number_and_count_the_rest():
    numbers = numbers_of(specimen())
    answer = Answer("", "", "", "", ("h1-2-strong-scaling", "speedup", "a", "b", "c", "d", "e"))
    assert numbers.rests_on(answer) == "Table 1, Figure 1, a, b, c, 2 more runs"


@given(st.text())
def test_shown_text_steers_nothing(text):
    assert all(char.isprintable() or char in "\n\t" or category(char) == "Zs" for char in plain_text(text))


@given(st.text())
def test_binding_changes_spaces_and_signs_only(text):
    assert bound_text(text).replace("\u00a0", " ") == typeset(text).replace("\u00a0", " ")


def test_numbers_stay_with_their_units():
    assert bound_text("19.4 ms [18.8, 20.1] and 5 % of it") == "19.4\u00a0ms [18.8,\u00a020.1] and 5\u00a0% of it"


def test_signs_are_those_of_print():
    assert typeset("4 D^2 L >= 10^9, 8 x 4, n - 1, [-1.2, 3], 5 us, 1.3e-03, +-5 %") == (
        "4 D² L ≥ 10⁹, 8 × 4, n − 1, [−1.2, 3], 5 µs, 1.3\u00a0×\u00a010⁻³, ±5 %"
    )


def test_code_names_and_dates_keep_their_signs():
    for text in ("`x = y - 1 >= 2`", "run-ranks1-r0", "2026-11-16", "max x", "6.18.44-4"):
        assert typeset(text) == text
