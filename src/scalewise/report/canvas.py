"""The common style of all figures: colours, legends, and SVG text that is the same on every machine."""

import io
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Colours are distinct for colour-blind readers, in an order in which neighbours of a stack and
# of a legend differ in grey, too.
SERIES = ("#12436d", "#e8752a", "#17766e", "#3f0b29", "#b79fe0", "#6b6b3a")
INK, GREY, FAINT, SHADE, PAPER = "#1a1a1a", "#7a7a7a", "#d4d4d4", "#efece4", "#fefefe"
MARKERS = ("o", "s", "^", "D", "v", "P")

# One meaning, one colour, in every figure of every report; any two of them differ in grey print.
MEANINGS: Mapping[str, str] = {
    "forward": SERIES[0],
    "backward": SERIES[1],
    "optimizer": SERIES[2],
    "communication": SERIES[3],
    "all-reduce": SERIES[3],
    "data": SERIES[4],
    "rest": "#d9d9d9",
}

# In HTML the colours are variables, so that the dark mode can lighten them.
VARIABLES: Mapping[str, str] = {
    **{colour: f"--s{number}" for number, colour in enumerate(SERIES, 1)},
    INK: "--ink",
    GREY: "--grey",
    FAINT: "--faint",
    SHADE: "--shade",
    PAPER: "--paper",
    MEANINGS["rest"]: "--rest",
}

LETTER_POINTS = 3.5  # average width of a letter of 7.5 points
HANDLE_POINTS = 20.5  # the symbol before a name and the gap after it
ROW_POINTS = 11.5
LONGEST_NAME = 44
LONGEST_LABEL = 60
BAR_NAME_LETTERS = 22

FONTS = ("STIXGeneral", "DejaVu Sans")  # both come with matplotlib; the second has more characters
POINTS_PER_INCH = 72

STYLE: dict[str, Any] = {
    "svg.fonttype": "path",
    "svg.hashsalt": "scalewise",
    "text.parse_math": False,  # a dollar sign in a script's name does not begin a formula
    "font.family": list(FONTS),
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "axes.formatter.useoffset": False,
    "axes.formatter.use_mathtext": False,
    "figure.facecolor": "none",
    "figure.dpi": POINTS_PER_INCH,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "axes.grid": False,
    "grid.color": FAINT,
    "grid.linewidth": 0.4,
    "lines.linewidth": 1.3,
    "lines.markersize": 4.2,
    "lines.markeredgewidth": 1.0,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "legend.handlelength": 1.4,
    "legend.handletextpad": 0.5,
    "legend.labelspacing": 0.25,
    "legend.columnspacing": 1.0,
    "legend.borderpad": 0.0,
    "legend.borderaxespad": 0.2,
    "hatch.color": PAPER,
    "hatch.linewidth": 0.8,
}


@dataclass(frozen=True)
class Hit:
    """A region of a figure and the text that hovering there shows; in points, from the upper left corner."""

    x: float
    y: float
    width: float
    height: float
    text: str


@dataclass(frozen=True)
class Drawing:
    """A figure as SVG, without anything that differs between two drawings of it."""

    svg: str
    width_points: float
    height_points: float
    hits: tuple[Hit, ...]


Paint = Callable[[Any, Any], Callable[[], list[Hit]]]  # the function that it returns is called after the layout


def drawn(paint: Paint, width_points: float, height_points: float) -> Drawing:
    """Returns what `paint` draws on the axes of a figure of this size."""
    with _own_style():
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

        size = (width_points / POINTS_PER_INCH, height_points / POINTS_PER_INCH)
        figure = Figure(figsize=size, layout="constrained")
        canvas = FigureCanvasSVG(figure)
        figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02)  # type: ignore[union-attr, call-arg]
        hits_of = paint(figure, figure.add_subplot())
        figure.draw_without_rendering()
        hits = tuple(hits_of())
        text = io.StringIO()
        write: Any = canvas.print_svg
        write(text, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return Drawing(_bare(text.getvalue()), width_points, height_points, hits)


def place(axes: Any, x: float, y: float) -> tuple[float, float]:
    """Returns the position on the page of a point of the axes: points from the upper left corner."""
    across, up = axes.transData.transform((x, y))
    return float(across), float(axes.figure.bbox.height - up)


def text_width(figure: Any, text: str, size: float) -> float:
    """Returns the width of the text in points."""
    probe = figure.text(0, 0, text, fontsize=size)
    width = float(probe.get_window_extent().width)
    probe.remove()
    return width


@contextmanager
def _own_style() -> Iterator[None]:
    """Applies only the project's settings and matplotlib's own fonts, whatever matplotlibrc and the system contain."""
    import matplotlib
    from matplotlib.font_manager import fontManager

    own = Path(matplotlib.get_data_path())
    before = fontManager.ttflist
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a character that no font has becomes a box, which is no reason to stop
        matplotlib.rcdefaults()
        settings: Any = matplotlib.rcParams
        settings.update(STYLE)
        fontManager.ttflist = [font for font in before if own in Path(font.fname).parents]
        try:
            yield
        finally:
            fontManager.ttflist = before


def _bare(svg: str) -> str:
    """Returns the SVG from its root element on, without comments: these hold labels, whose text may be a script's."""
    bare = re.sub(r"<!--.*?-->\s*", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    bare = re.sub(r"\s*<metadata>.*?</metadata>", "", bare, flags=re.DOTALL)
    return re.sub(r"\n\s*", "\n", bare)


def colours_of(names: Sequence[str]) -> dict[str, str]:
    """Returns a colour for each name: that of its meaning if it has one, else the next free one."""
    meant = {name: MEANINGS[name] for name in names if name in MEANINGS}
    free = [colour for colour in SERIES if colour not in meant.values()] or list(SERIES)
    others = [name for name in dict.fromkeys(names) if name not in meant]
    return {**meant, **{name: free[index % len(free)] for index, name in enumerate(others)}}


def legend_columns(names: Sequence[str], width_points: float) -> int:
    """Returns how many columns fit, each as wide as its longest name."""
    widths = [len(elided(name)) * LETTER_POINTS + HANDLE_POINTS for name in names]
    for columns in range(len(names), 1, -1):
        if sum(max(widths[column::columns]) for column in range(columns)) <= width_points:
            return columns
    return 1


def legend_points(names: Sequence[str], width_points: float) -> float:
    """Returns the height of the legend."""
    return -(-len(names) // legend_columns(names, width_points)) * ROW_POINTS + 2


def paint_legend(figure: Any, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Draws the legend row by row, the first name first."""
    columns = legend_columns(names, float(figure.bbox.width))
    # matplotlib fills columns first, but people read rows first.
    order = [index for column in range(columns) for index in range(column, len(names), columns)]
    figure.legend([handles[index] for index in order], [elided(names[index]) for index in order],
                  loc="outside upper left", ncols=columns)  # fmt: skip


def elided(text: str, most: int = LONGEST_NAME) -> str:
    """Returns the text shortened for a figure; the tables show it in full."""
    single = "".join(char if char.isprintable() else "?" for char in " ".join(text.split()))
    return single if len(single) <= most else f"{single[: most - 1]}…"


def bar_name(text: str) -> str:
    """Returns the name on two lines at most."""
    lines = textwrap.wrap(elided(text), BAR_NAME_LETTERS)
    return "\n".join([lines[0], elided(" ".join(lines[1:]), BAR_NAME_LETTERS)]) if len(lines) > 1 else elided(text)
