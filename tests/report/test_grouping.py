"""What stands side by side on paper."""

from dataclasses import replace

from specimen import MEMORY, TABLE

from scalewise.report.document import Answer, Figure, Listing, Paragraph
from scalewise.report.grouping import groups_of

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
