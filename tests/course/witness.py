"""Finds numbers of answers that stand nowhere in the tables, figures and listings the answers rest on."""

import re
from collections.abc import Iterable, Iterator

from scalewise.report.document import (
    Answer,
    BarPlot,
    Block,
    Figure,
    Formula,
    LinePlot,
    Listing,
    Section,
    StripPlot,
    Table,
    TimelinePlot,
)

NUMBER = re.compile(r"(?<![\w.])\d[\d   ]*(?:\.\d+)?(?![\d])")
# Names hold digits that are no figures: H3.2, float16, FSDP2, cuda:1, NVLink 4, H200, T(N), 2D.
NAMES = re.compile(
    r"`[^`]*`|\b(?:\d+-bit|16 bits|[HP]\d+(?:\.\d+)?[A-C]?|float\d+|bfloat\d+|fp\d+|bf\d+|TF32|H\d{3}|A\d{3}|"
    r"nvlink\d|NVLink \d|"
    r"GPU \d|device \d|rank \d|Code \d(?:(?:, \d)* (?:and|to|against) \d)?|Codes? \d(?:(?:, \d)* and \d)?|"
    r"homework \d|practical \d|"
    r"DIM|int\d+|\w+\.py|lines? \d+(?:[–-]\d+)?|Table \d+|Figure \d+|95 %)"
)


def strangers(section: Section | Iterable[Section]) -> dict[str, list[str]]:
    """For each question, the numbers of its answer that are nowhere in what it rests on; empty where all are."""
    sections = [section] if isinstance(section, Section) else list(section)
    blocks = [block for one in sections for block in one.blocks]
    found = {}
    for answer in blocks:
        if isinstance(answer, Answer):
            missing = sorted(_missing(answer, blocks))
            if missing:
                found[f"{answer.row} {answer.question}"] = missing
    return found


def _missing(answer: Answer, blocks: list[Block]) -> set[str]:
    known = set(numbers(answer.question))
    for block in blocks:
        if isinstance(block, Table | Figure | Listing) and block.id in answer.rests_on:
            known.update(number for text in texts(block) for number in numbers(text))
        if isinstance(block, Formula):
            known.update(numbers(block.plain))
    said = " ".join((answer.verdict, answer.number, answer.why, answer.practice))
    return {number for number in numbers(said) if number not in known}


def numbers(text: str) -> list[str]:
    """The numbers of a text as they are written, names left out."""
    return [found.replace(" ", "").replace(" ", "").strip() for found in NUMBER.findall(NAMES.sub(" ", text))]


def texts(block: Table | Figure | Listing) -> Iterator[str]:
    """Everything that a reader can read of it."""
    yield block.title
    if isinstance(block, Table):
        yield from (block.caption, *block.notes, *(heading for _, heading in block.groups))
        yield from (f"{column.title} {column.unit}" for column in block.columns)
        for row in block.rows:
            for cell in row:
                yield f"{cell.text} {getattr(cell, 'interval', '')} {cell.doubt}"
    elif isinstance(block, Listing):
        last = block.first_line + len(block.text.splitlines())
        yield from (block.text, " ".join(map(str, range(block.first_line, last))))
    else:
        yield block.caption
        yield from _plot_texts(block.plot)


def _plot_texts(plot: LinePlot | BarPlot | TimelinePlot | StripPlot) -> Iterator[str]:
    if isinstance(plot, LinePlot):
        yield from (plot.x_label, plot.y_label, *(one.name for one in plot.series), *(one.label for one in plot.spans))
    elif isinstance(plot, BarPlot):
        yield from (plot.value_label, *plot.bars, *(part.name for part in plot.parts))
    elif isinstance(plot, TimelinePlot):
        yield from (plot.x_label, *(lane.name for lane in plot.lanes))
    else:
        yield from (plot.value_label, *(one.name for one in plot.samples))
