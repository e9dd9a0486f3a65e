"""The content of a result, independent of its looks: sections of sentences, findings, tables and figures as values.

Every output shows this: terminal, notebook, page, PDF, CSV and Markdown. What an output with little room does otherwise
is declared here (`Column.short`, `LinePlot.rows`, `Only`), so that no renderer knows whose result it shows.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

# With a star: the prediction is based on guesses.
Mark = Literal["measured", "emulated", "oversubscribed", "predicted", "predicted*", "failed", "missing"]


@dataclass(frozen=True)
class Cell:
    """One cell of a table: the text for people, and the number behind it for CSV and for hovering.

    `text` is the value alone; its interval is separate, as tables set it small and sentences may leave it out.
    """

    text: str
    number: float | None = None  # the value in the column's unit
    low: float | None = None  # lower end of its interval
    high: float | None = None
    mark: Mark = "measured"  # shown unless it is `measured`
    note: str = ""  # tooltip text beside the interval
    doubt: str = ""  # a caveat that makes this number doubtful, in words for the reader; a footnote of the table
    interval: str = ""  # `[33.7, 44.1]`, rounded as the text is; empty if there is none
    level: float = 0.95  # confidence level of the interval, if there is one
    short: str = ""  # the text where there is little room; empty: `text`


EMPTY = "–"  # the text of a cell without a value

# How an interval is shown where there is little room: both ends, half its width, that as a share of the value in a
# column of its own, or not at all.
Within = Literal["ends", "half", "share", "none"]


@dataclass(frozen=True)
class Column:
    """A heading with its unit, and whether the column contains numbers.

    The other fields are for a terminal: it leaves out the columns with the highest `extra` first if all are too wide.
    """

    title: str
    unit: str = ""
    numeric: bool = True
    short: str = ""  # the heading, unit included; empty: title and unit
    extra: int = 0  # 0: never left out
    within: Within = "ends"
    unit_beside: bool = False  # the unit stands at each number, and not in the heading


@dataclass(frozen=True)
class Table:
    """A table that the course asks for, or one of our own."""

    id: str  # file name of its CSV: `h1-2-strong-scaling`
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()  # below the table: marks, and what was made smaller and why
    runs: tuple[tuple[str, ...], ...] = ()  # the runs behind each row, to link the raw rows
    caption: str = ""  # DIM, DEPTH, batch, ranks, steps, repeats, and what a bracket means
    groups: tuple[tuple[int, str], ...] = ()  # (index of a row, heading above it)
    marks: tuple[tuple[Mark, str], ...] = ()  # what the marks of its rows mean, told if there is such a row


@dataclass(frozen=True)
class PlotSeries:
    """The points of one line, with the interval around each point if there is one."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    style: Literal["measured", "emulated", "oversubscribed", "predicted", "model", "ideal"] = "measured"


@dataclass(frozen=True)
class ShadedSpan:
    """A shaded stretch of the x axis, such as warm-up."""

    begin: float
    end: float
    label: str


@dataclass(frozen=True)
class LinePlot:
    """Lines over a common x axis."""

    x_label: str
    y_label: str
    series: tuple[PlotSeries, ...]
    spans: tuple[ShadedSpan, ...] = ()
    log_x: bool = False
    log_y: bool = False
    x_ticks: tuple[float, ...] = ()  # empty: the drawing chooses them
    rows: tuple[float, ...] = ()  # the x at which a terminal shows the lines, one in each row; empty: it shows none
    guides: tuple[float, ...] = ()  # the y at which it marks those rows


@dataclass(frozen=True)
class Part:
    """One colour of a stack, over all bars."""

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class BarPlot:
    """Stacked bars; plain bars if there is only one part."""

    bars: tuple[str, ...]  # names along the axis
    parts: tuple[Part, ...]
    value_label: str
    low: tuple[float, ...] = ()  # interval of the whole bar
    high: tuple[float, ...] = ()
    marks: tuple[Mark, ...] = ()  # one per bar, or empty
    totals: tuple[float, ...] = ()  # the number at the end of each bar; empty: the sum of its parts


@dataclass(frozen=True)
class Lane:
    """One device of a timeline, or one kind of work, with the stretches in which it worked."""

    name: str
    stretches: tuple[tuple[float, float, str], ...]  # begin, end, phase
    numbers: tuple[int, ...] = ()  # of its micro-batches or buckets, one for each stretch, written into it


@dataclass(frozen=True)
class TimelinePlot:
    """The lanes of a timeline, which show when each device worked.

    If one lane computes and another has phases called `all-reduce`, the parts hidden behind computing are drawn
    lighter.
    """

    lanes: tuple[Lane, ...]
    x_label: str


@dataclass(frozen=True)
class Sample:
    """The values of one strip of a distribution."""

    name: str
    values: tuple[float, ...]
    mark: Mark = "measured"


@dataclass(frozen=True)
class StripPlot:
    """Distributions side by side: every value is a dot, with median and quartiles drawn over them."""

    samples: tuple[Sample, ...]
    value_label: str


Plot = LinePlot | BarPlot | TimelinePlot | StripPlot


@dataclass(frozen=True)
class Figure:
    """A plot with its caption; `width` is the share of the text's width that it needs."""

    id: str
    title: str
    caption: str
    plot: Plot
    width: float = 0.5


# The looks of a sentence or a verdict.
Tone = Literal["plain", "strong", "quiet", "good", "wrong", "slow", "note", "suspected"]


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of plain text, which may begin with a label: `Doubt: ...`."""

    text: str
    label: str = ""
    tone: Tone = "plain"


@dataclass(frozen=True)
class Facts:
    """Names with their values, one below the other; an empty name continues the one above."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class QuotedPlace:
    """A line that a judgement is about: `train.py:47 in train_one_epoch`, and the text that was noted there."""

    name: str
    line: int
    text: str = ""


@dataclass(frozen=True)
class Quote:
    """Places near each other, and the lines around them if there is room to show them."""

    places: tuple[QuotedPlace, ...]
    lines: tuple[tuple[int, str], ...] = ()  # number and text


@dataclass(frozen=True)
class Judgement:
    """A verdict on one thing, with its place, what shows it, and what to do."""

    name: str
    verdict: str  # one or two words
    tone: Tone
    sentence: str
    quotes: tuple[Quote, ...] = ()
    facts: tuple[tuple[str, tuple[str, ...]], ...] = ()  # label, and sentences
    fix: str = ""  # lines of code
    number: int | None = None  # None: it is one of a list, named by its `name`


@dataclass(frozen=True)
class Formula:
    """A displayed formula: in Typst's notation for the PDF, in plain letters for everything else."""

    typst: str
    plain: str
    mathml: str = ""  # the content of a <math> element; if it is empty, HTML shows `plain`


@dataclass(frozen=True)
class Code:
    """Lines of a script or a command, unchanged."""

    text: str


@dataclass(frozen=True)
class Listing:
    """Lines of a script that the task asks to submit, with line numbers; `marked` are the important ones."""

    id: str
    title: str
    source: str  # file name, relative to where the student finds it
    first_line: int
    text: str
    marked: tuple[int, ...] = ()  # line numbers in the file


YesOrNo = Literal["Yes", "No"]


@dataclass(frozen=True)
class Answer:
    """The answer to one question of the course, in the order in which a reader wants its parts.

    Every number in `verdict`, `number`, `why` and `practice` occurs in a table or figure that the answer is based on,
    with the same rounding. A sentence has one interval at most.
    """

    row: str  # the course's task: H1.2
    question: str  # as the course's task sheet asks it
    sentence: str  # the verdict in plain words, but for the word with which it may begin
    number: str = ""  # the sentence with the one number that shows it
    why: str = ""  # the mechanism
    practice: str = ""  # what it means for practice
    decided: str = ""  # the rule that decided it, with its numbers: appendix of the PDF, tooltip in HTML
    rests_on: tuple[str, ...] = ()  # ids of tables, figures and listings
    shaken_by: tuple[str, ...] = ()  # caveats that make this answer doubtful, in words for the reader
    hint: str = ""  # which numbers to use, in a report that leaves the answers to the student
    word: YesOrNo | None = None  # of a question that is answered by one

    @property
    def verdict(self) -> str:
        """The sentence after its word: `No: every further layer makes the step longer.`"""
        return f"{self.word}: {self.sentence}" if self.word else self.sentence


@dataclass(frozen=True)
class TitleBlock:
    """The author and subject of a report that is handed in; an empty field is a line to write on."""

    name: str = ""
    student_number: str = ""
    course: str = ""
    date: str = ""
    machine: str = ""


@dataclass(frozen=True)
class Summary:
    """The box on a report's first page: what was found, and which answers are based on doubtful numbers."""

    sentences: tuple[str, ...]
    shaken: tuple[str, ...] = ()  # `H1.5A: steps of 2 ranks vary by 30 %`


Place = Literal["terminal", "page"]
Block = Paragraph | Facts | Judgement | Formula | Code | Listing | Table | Figure | Answer


@dataclass(frozen=True)
class Only:
    """Blocks for one kind of place only, such as a table that stands for a figure where nothing can be drawn."""

    place: Place
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Section:
    """A heading, if it has one, and the blocks below it."""

    id: str
    title: str
    blocks: tuple[Block | Only, ...]
    labelled: bool = True  # False: the title names the questions that it answers, and needs no label before it

    def shown_on(self, place: Place) -> tuple[Block, ...]:
        """Returns the blocks that such a place shows."""
        return tuple(_shown_on(self.blocks, place))


def _shown_on(blocks: Iterable[Block | Only], place: Place) -> Iterator[Block]:
    for block in blocks:
        if not isinstance(block, Only):
            yield block
        elif block.place == place:
            yield from block.blocks


@dataclass(frozen=True)
class Document:
    """The result of a verb, or a report."""

    id: str  # file name without its ending: `homework1`
    title: str
    subtitle: tuple[str, ...]  # such as machine and date of the runs
    sections: tuple[Section, ...]
    most_pages: int | None = None  # the course's limit
    title_block: TitleBlock | None = None  # None: not a hand-in
    summary: Summary | None = None
    answers: Literal["full", "hints"] = "full"  # hints: tables and figures are filled in, answers are lines to write on
    numbered: bool = True  # sections that answer no question have a number
    made_by: str = ""  # `scalewise doctor`; a terminal, on which it was typed, does not repeat it
