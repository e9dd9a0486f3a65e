"""The common style of all figures, and the rendering of a figure to SVG text that is the same on every machine."""

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalewise.report.palette import FAINT, GREY, INK, PAPER

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
