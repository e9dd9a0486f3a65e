"""Names in figures: never wider than the figure, cut where they must be."""

from hypothesis import given
from hypothesis import strategies as st

from scalewise.report.canvas import bar_name, elided, legend_columns, legend_points

NAMES = st.lists(st.text(max_size=80), min_size=1, max_size=12)


@given(NAMES, st.floats(min_value=50, max_value=600))
def test_a_legend_has_at_least_one_column_and_no_more_than_names(names, width):
    columns = legend_columns(names, width)
    assert 1 <= columns <= len(names)
    assert legend_points(names, width) > 0


def test_short_names_share_a_row_and_long_ones_do_not():
    assert legend_columns(["data", "forward", "backward", "rest"], 234) == 4
    assert legend_columns(["a name that is rather long", "and another one that is long"], 200) == 1


@given(st.text(max_size=200))
def test_a_name_in_a_figure_is_short_and_one_line(text):
    assert len(elided(text)) <= 44 and "\n" not in elided(text)
    assert bar_name(text).count("\n") <= 1 and all(len(line) <= 44 for line in bar_name(text).split("\n"))


def test_a_bar_s_long_name_is_on_two_lines():
    assert bar_name("2 ranks on 2 logical devices") == "2 ranks on 2 logical\ndevices"
