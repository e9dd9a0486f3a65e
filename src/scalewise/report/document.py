"""What a report holds, before anybody decides how it looks: sections of tables, figures and answers as values."""

from dataclasses import dataclass
from typing import Literal

# With a star: the prediction rests on guesses.
Mark = Literal["measured", "emulated", "oversubscribed", "predicted", "predicted*", "failed", "missing"]


@dataclass(frozen=True)
class Cell:
    """One cell of a table: the text for people, the number behind it for CSV and for hovering.

    `text` is the value alone; its interval stands apart, since tables set it small and sentences may leave it out.
    """

    text: str
    number: float | None = None  # in the column's unit
    low: float | None = None  # of its interval
    high: float | None = None
    mark: Mark = "measured"  # shown unless it is `measured`
    note: str = ""  # what hovering shows beside the interval
    doubt: str = ""  # a caveat that shakes this number, in words for the reader; shown as a footnote of the table
    interval: str = ""  # `[33.7, 44.1]`, rounded as the text is; empty where there is none
    level: float = 0.95  # of the interval, where there is one


@dataclass(frozen=True)
class Column:
    """A heading, its unit, and whether numbers stand in it."""

    title: str
    unit: str = ""
    numeric: bool = True


@dataclass(frozen=True)
class Table:
    """A table of the course, or one of ours."""

    id: str  # file name of its CSV: `h1-2-strong-scaling`
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()  # below the table: marks, what was chosen smaller and why
    runs: tuple[tuple[str, ...], ...] = ()  # the runs behind each row, to link the raw rows
    caption: str = ""  # DIM, DEPTH, batch, ranks, steps, repeats, and what a bracket is
    groups: tuple[tuple[int, str], ...] = ()  # (index of a row, heading that stands above it)


@dataclass(frozen=True)
class Series:
    """Points of one line, with the interval around each where there is one."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    style: Literal["measured", "emulated", "oversubscribed", "predicted", "model", "ideal"] = "measured"


@dataclass(frozen=True)
class Span:
    """A shaded stretch of the x axis, such as warm-up."""

    begin: float
    end: float
    label: str


@dataclass(frozen=True)
class Lines:
    """Lines over a common x axis."""

    x_label: str
    y_label: str
    series: tuple[Series, ...]
    spans: tuple[Span, ...] = ()
    log_x: bool = False
    log_y: bool = False
    x_ticks: tuple[float, ...] = ()  # empty: chosen by the drawing


@dataclass(frozen=True)
class Part:
    """One colour of a stack over all bars."""

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class Bars:
    """Stacked bars, or single ones where there is one part."""

    bars: tuple[str, ...]  # names along the axis
    parts: tuple[Part, ...]
    value_label: str
    low: tuple[float, ...] = ()  # interval of the whole bar
    high: tuple[float, ...] = ()
    marks: tuple[Mark, ...] = ()  # one a bar, or empty
    totals: tuple[float, ...] = ()  # the number at the end of each bar; empty: the sum of its parts


@dataclass(frozen=True)
class Lane:
    """One device of a timeline, or one kind of work: the stretches in which it worked.

    A number at the end of a phase, as in `forward 3` or `all-reduce 2`, is written into the stretch, and the stretch
    has the colour of the phase without it. So micro-batches and buckets are told apart.
    """

    name: str
    stretches: tuple[tuple[float, float, str], ...]  # begin, end, phase


@dataclass(frozen=True)
class Timeline:
    """Who worked when.

    Where one lane computes and another holds phases called `all-reduce`, what computing hides of them is drawn lighter.
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
class Strips:
    """Distributions side by side: every value a dot, median and quartiles drawn over them."""

    samples: tuple[Sample, ...]
    value_label: str


Plot = Lines | Bars | Timeline | Strips


@dataclass(frozen=True)
class Figure:
    """A plot with its caption; `width` is the share of the text's width it wants."""

    id: str
    title: str
    caption: str
    plot: Plot
    width: float = 0.5


@dataclass(frozen=True)
class Paragraph:
    """Plain text."""

    text: str


@dataclass(frozen=True)
class Formula:
    """A displayed formula: in Typst's notation for the page, in plain letters for everything else."""

    typst: str
    plain: str
    mathml: str = ""  # the content of a <math> element; where it is empty, HTML shows `plain`


@dataclass(frozen=True)
class Code:
    """Lines of a script or a command, as they are."""

    text: str


@dataclass(frozen=True)
class Listing:
    """Lines of a script that the task asks to submit, with their line numbers; `marked` are the ones that matter."""

    id: str
    title: str
    source: str  # file name, relative to where the student finds it
    first_line: int
    text: str
    marked: tuple[int, ...] = ()  # line numbers in the file


@dataclass(frozen=True)
class Answer:
    """The answer to one question of the course, in the order in which a reader wants it.

    Every number in `verdict`, `number`, `why` and `practice` stands in a table or figure that the answer rests on, with
    the same rounding. At most one interval stands in a sentence.
    """

    row: str  # of the course: H1.2
    question: str  # as the sheet asks it
    verdict: str  # one sentence in plain words
    number: str = ""  # the sentence with the one number that shows it
    why: str = ""  # the mechanism
    practice: str = ""  # what it means for practice
    decided: str = ""  # the rule and its numbers: appendix of the PDF, tooltip in HTML
    rests_on: tuple[str, ...] = ()  # ids of tables, figures and listings
    shaken_by: tuple[str, ...] = ()  # caveats that shake this answer, in words for the reader
    hint: str = ""  # which numbers to use, for a report that leaves the answers to the student


@dataclass(frozen=True)
class TitleBlock:
    """Who hands in what; an empty field is a line to write on."""

    name: str = ""
    student_number: str = ""
    course: str = ""
    date: str = ""
    machine: str = ""


@dataclass(frozen=True)
class Summary:
    """The report in a box on its first page: what was found, and which answers stand on shaky numbers."""

    sentences: tuple[str, ...]
    shaken: tuple[str, ...] = ()  # `H1.5A: steps of 2 ranks vary by 30 %`


Block = Paragraph | Formula | Code | Listing | Table | Figure | Answer


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    id: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """One report."""

    id: str  # file name without its ending: `homework1`
    title: str
    subtitle: str  # machine and date of the runs
    sections: tuple[Section, ...]
    most_pages: int | None  # the course's limit
    title_block: TitleBlock | None = None  # None: not a hand-in
    summary: Summary | None = None
    answers: Literal["full", "hints"] = "full"  # hints: tables and figures are filled, answers are lines to write on
