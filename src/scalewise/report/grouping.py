"""Which blocks of a section stand side by side on paper, so that no half of a page stays white."""

from collections.abc import Sequence
from itertools import takewhile

from scalewise.explain.answer import Answer
from scalewise.report.document import Block, Figure, Table

ROW = 1.001  # figures stand side by side while their widths add up to this
NARROW = 0.5
TABLE_LETTERS = 56  # in the longest cells of all columns: about half of the text's width
LETTERS_BESIDE = 620  # of answers are about as high as a narrow figure with its caption


def groups_of(blocks: Sequence[Block]) -> list[list[Block]]:
    """Neighbouring figures that fit make a row; of an odd number, one goes beside the table above or answers below."""
    groups: list[list[Block]] = []
    for index, block in enumerate(blocks):
        if groups and _joins(groups[-1], block, blocks[index:]):
            groups[-1].append(block)
        else:
            groups.append([block])
    return groups


def _joins(group: Sequence[Block], block: Block, rest: Sequence[Block]) -> bool:
    first = group[0]
    if isinstance(block, Figure):
        if isinstance(first, Table):
            return len(group) == 1 and len(list(takewhile(_narrow, rest))) % 2 == 1 and _narrow_table(first)
        widths = [one.width for one in group if isinstance(one, Figure)]
        return len(widths) == len(group) and sum(widths) + block.width <= ROW
    if isinstance(block, Answer) and _narrow(first):
        answers = [one for one in group[1:] if isinstance(one, Answer)]
        letters = sum(map(_letters, answers))
        return len(answers) == len(group) - 1 and (not answers or letters + _letters(block) / 2 < LETTERS_BESIDE)
    return False


def _narrow(block: Block) -> bool:
    return isinstance(block, Figure) and block.width <= NARROW


def _narrow_table(table: Table) -> bool:
    """Whether it is likely to leave room for a figure; the page measures it."""
    letters = 0
    for index, column in enumerate(table.columns):
        head = len(column.title) + len(column.unit) + 2
        letters += max([head, *(len(row[index].text) for row in table.rows)])
    return letters <= TABLE_LETTERS


def _letters(answer: Answer) -> int:
    return len(answer.question) + len(answer.text) + (len(answer.condition) * 2) // 3
