"""What a report holds, before anybody decides how it looks: sections of tables, figures and answers as values."""

from dataclasses import dataclass
from typing import Literal

from scalewise.explain.answer import Answer

# With a star: the prediction rests on guesses.
Mark = Literal["measured", "emulated", "oversubscribed", "predicted", "predicted*", "failed", "missing"]


@dataclass(frozen=True)
class Cell:
    """One cell of a table: the text for people, the number behind it for CSV and for hovering."""

    text: str
    number: float | None = None  # in the column's unit
    low: float | None = None  # of its 95 % interval
    high: float | None = None
    mark: Mark = "measured"  # shown unless it is `measured`
    note: str = ""  # what hovering shows beside the interval


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


@dataclass(frozen=True)
class Lane:
    """One device of a timeline: the stretches in which it worked."""

    name: str
    stretches: tuple[tuple[float, float, str], ...]  # begin, end, phase


@dataclass(frozen=True)
class Timeline:
    """Who worked when."""

    lanes: tuple[Lane, ...]
    x_label: str


Plot = Lines | Bars | Timeline


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


@dataclass(frozen=True)
class Code:
    """Lines of a script or a command, as they are."""

    text: str


Block = Paragraph | Formula | Code | Table | Figure | Answer


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
