"""Decides which blocks of a section are side by side on paper, so that no half of a page stays empty."""

from collections.abc import Sequence

from scalewise.report.document import Answer, Block, Figure, Paragraph, Table

ROW = 1.001  # figures are side by side while their widths add up to this
NARROW = 0.5
TABLE_LETTERS = 56  # letters in the longest cells of all columns: about half of the text's width


def groups_of(blocks: Sequence[Block]) -> list[list[Block]]:
    """Groups blocks that are set together: a row of figures, a narrow table with a figure, or a block alone."""
    groups: list[list[Block]] = []
    for block in gathered(blocks):
        if groups and isinstance(block, Figure) and _joins(groups[-1], block):
            groups[-1].append(block)
        else:
            groups.append([block])
    return _beside_tables(groups)


def gathered(blocks: Sequence[Block]) -> list[Block]:
    """Moves the next narrow figure of the section beside a narrow figure that is alone, past the text between them."""
    order = list(blocks)
    index = 0
    while index < len(order):
        run = _narrow_run(order, index)
        if run % 2:
            later = _next_figure(order, index + run)
            if later is not None and _narrow_run(order, later) % 2:
                order.insert(index + run, order.pop(later))
                run += 1
        index += max(run, 1)
    return order


def _narrow_run(blocks: Sequence[Block], begin: int) -> int:
    """Returns how many narrow figures follow each other from there on."""
    end = begin
    while end < len(blocks) and _narrow(blocks[end]):
        end += 1
    return end - begin


def _next_figure(blocks: Sequence[Block], begin: int) -> int | None:
    for index in range(begin, len(blocks)):
        if isinstance(blocks[index], Figure):
            return index if _narrow(blocks[index]) else None
        if not isinstance(blocks[index], Answer | Paragraph):
            return None
    return None


def _joins(group: Sequence[Block], figure: Figure) -> bool:
    widths = [one.width for one in group if isinstance(one, Figure)]
    return len(widths) == len(group) and sum(widths) + figure.width <= ROW


def _beside_tables(groups: list[list[Block]]) -> list[list[Block]]:
    """Moves a narrow figure that is alone beside the narrow table above it."""
    made: list[list[Block]] = []
    for group in groups:
        above = made[-1] if made else []
        alone = len(group) == 1 and _narrow(group[0])
        if alone and len(above) == 1 and isinstance(above[0], Table) and _narrow_table(above[0]):
            above.append(group[0])
        else:
            made.append(group)
    return made


def _narrow(block: Block) -> bool:
    return isinstance(block, Figure) and block.width <= NARROW


def _narrow_table(table: Table) -> bool:
    """Returns True if the table probably leaves room for a figure; the page measures it."""
    letters = 0
    for index, column in enumerate(table.columns):
        head = len(column.title) + len(column.unit) + 2
        cells = (len(row[index].text) + len(row[index].interval) for row in table.rows)
        letters += max([head, *cells])
    return letters <= TABLE_LETTERS
