"""What stands side by side on paper."""

from dataclasses import replace

from specimen import MEMORY, TABLE

from scalewise.explain.answer import Answer
from scalewise.report.document import Figure, Paragraph
from scalewise.report.grouping import groups_of

HALF = Figure("half", "", "", MEMORY, 0.5)
WIDE = Figure("wide", "", "", MEMORY, 1.0)
THIRD = Figure("third", "", "", MEMORY, 1 / 3)
TEXT = Paragraph("text")
SHORT = Answer("H", "Why?", "Because.", "c", ())
LONG = Answer("H", "Why?", "Because. " * 80, "c", ())
NARROW = replace(TABLE, columns=TABLE.columns[:2], rows=tuple(row[:2] for row in TABLE.rows))


def sizes(*blocks) -> list[int]:
    return [len(group) for group in groups_of(blocks)]


def test_figures_share_a_row_while_they_fit():
    assert sizes(HALF, HALF, HALF) == [2, 1]
    assert sizes(THIRD, THIRD, THIRD, THIRD) == [3, 1]
    assert sizes(WIDE, HALF, HALF) == [1, 2]
    assert sizes(HALF, TEXT, HALF) == [1, 1, 1]


def test_the_odd_figure_goes_beside_a_narrow_table():
    assert sizes(NARROW, HALF) == [2]
    assert sizes(NARROW, HALF, HALF) == [1, 2]
    assert sizes(NARROW, HALF, HALF, HALF) == [2, 2]
    assert sizes(TABLE, HALF) == [1, 1]
    assert sizes(NARROW, WIDE) == [1, 1]


def test_answers_stand_beside_a_lone_narrow_figure_as_far_as_it_reaches():
    assert sizes(HALF, SHORT, SHORT) == [3]
    assert sizes(HALF, LONG, LONG) == [2, 1]
    assert sizes(HALF, HALF, SHORT) == [2, 1]
    assert sizes(WIDE, SHORT) == [1, 1]


def test_no_block_is_lost_and_the_order_is_kept():
    blocks = [TEXT, TABLE, HALF, SHORT, WIDE, HALF, HALF, HALF, LONG, NARROW, HALF, TEXT]
    assert [block for group in groups_of(blocks) for block in group] == blocks
