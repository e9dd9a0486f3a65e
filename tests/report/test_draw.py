"""Drawings: the same text every time, whatever the user's settings, with a place to hover over for every value."""

import re

import matplotlib
import pytest
from specimen import ANATOMY, BAND, MANY, MEMORY, NASTY, PIPELINE, SPEEDUP, TRACE

from scalewise.report.document import BarPlot, Figure, Lane, LinePlot, Part, PlotSeries, TimelinePlot
from scalewise.report.draw import draw, width_points
from scalewise.report.draw_lines import in_height

PLOTS = {"speedup": SPEEDUP, "trace": TRACE, "band": BAND, "many": MANY, "anatomy": ANATOMY, "memory": MEMORY}
PLOTS["pipeline"] = PIPELINE


def drawing(plot, width: float = 0.5):
    return draw(Figure("id", "title", "caption", plot, width))


@pytest.mark.parametrize("name", PLOTS)
def test_a_drawing_is_the_same_twice_and_holds_neither_date_nor_text(name):
    first = drawing(PLOTS[name])

    assert first == drawing(PLOTS[name])
    assert first.svg.startswith("<svg") and first.svg.endswith("</svg>\n")
    assert not re.search(r"<text|<!--|<metadata|<script|20\d\d-\d\d", first.svg)


@pytest.mark.parametrize("name", PLOTS)
def test_every_place_to_hover_over_lies_in_the_figure(name):
    made = drawing(PLOTS[name])

    assert made.hits
    for hit in made.hits:
        assert -6 <= hit.x <= made.width_points + 6 and -6 <= hit.y <= made.height_points + 6
        assert hit.width > 0 and hit.height > 0 and hit.text


def test_the_number_of_a_stretch_is_told_where_it_has_one():
    stretches = ((0.0, 1.0, "forward"), (1.0, 3.0, "backward"))
    bare, numbered = (drawing(TimelinePlot((Lane("GPU 0", stretches, own),), "ms")) for own in ((), (4, 4)))
    assert [hit.text.partition(":")[0] for hit in bare.hits] == ["GPU 0, forward", "GPU 0, backward"]
    assert [hit.text.partition(":")[0] for hit in numbered.hits] == ["GPU 0, forward 4", "GPU 0, backward 4"]
    assert bare.svg != numbered.svg


def test_the_user_s_settings_of_matplotlib_change_nothing_and_are_left_alone():
    before = drawing(SPEEDUP)
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9, "svg.hashsalt": "other", "axes.grid": True}):
        changed = drawing(SPEEDUP)
        assert matplotlib.rcParams["font.size"] == 30
    assert changed == before


def test_a_dollar_sign_is_a_dollar_sign_and_a_strange_letter_no_error():
    assert drawing(
        LinePlot(NASTY, NASTY, (PlotSeries(NASTY, (1, 2), (1, 2)), PlotSeries("$\\frac{1}$", (1, 2), (2, 1))))
    ).svg


@pytest.mark.parametrize(
    "plot",
    [
        LinePlot("x", "y", ()),
        LinePlot("x", "y", (PlotSeries("a", (), ()),)),
        LinePlot("x", "y", (PlotSeries("a", (1,), (float("nan"),)),), log_y=True),
        LinePlot("x", "y", (PlotSeries("a", (1, 2), (0.0, 0.0)),), log_x=True, log_y=True),
        LinePlot("x", "y", (PlotSeries("a", (1, 2), (-1.0, 1.0)),)),
        BarPlot((), (), "y"),
        BarPlot(("a",), (Part("p", (float("nan"),)),), "y"),
        BarPlot(("a", "b"), (Part("p", (0.0, 0.0)),), "y", marks=("failed", "missing")),
        TimelinePlot((), "x"),
    ],
)
def test_empty_and_odd_plots_are_drawn(plot):
    assert drawing(plot).svg.startswith("<svg")


def test_marks_can_be_told_apart():
    plain = BarPlot(("a",), (Part("p", (1.0,)),), "y")
    looks = {
        mark: drawing(BarPlot(plain.bars, plain.parts, "y", marks=(mark,))).svg
        for mark in ("measured", "emulated", "oversubscribed", "predicted", "failed")
    }
    assert len(set(looks.values())) == len(looks)
    styles = {
        style: drawing(LinePlot("x", "y", (PlotSeries("a", (1, 2), (1, 2), style=style),))).svg
        for style in ("measured", "emulated", "oversubscribed", "model", "ideal")
    }
    assert len(set(styles.values())) == len(styles)


def test_two_halves_and_a_gutter_fill_the_width():
    assert 2 * width_points(0.5) < width_points(1.0)
    assert width_points(0.01) == width_points(0.25)


@pytest.mark.parametrize(("height", "lines"), [(165, 1), (60, 2)])
def test_an_upright_label_longer_than_its_axis_stands_in_two_lines(height, lines):
    from matplotlib.figure import Figure as Page

    label = in_height(Page(figsize=(3, height / 72), dpi=72), "step time (ms)")
    assert len(label.split("\n")) == lines and label.replace("\n", " ") == "step time (ms)"
