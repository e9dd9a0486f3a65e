"""Blocks that cannot be shown become named gaps."""

from dataclasses import replace

from specimen import SPEEDUP, TABLE, specimen

from scalewise.report.document import Document, Figure, LinePlot, Paragraph, PlotSeries, Section
from scalewise.report.write import showable


def gaps(*blocks) -> tuple[list[str], list[str]]:
    said: list[str] = []
    document = showable(Document("d", "D", (), (Section("s", "S", blocks),), None), said.append)
    return [block.text for block in document.sections[0].blocks if isinstance(block, Paragraph)], said


def test_a_figure_that_cannot_be_drawn_is_a_sentence():
    torn = LinePlot("x", "y", (PlotSeries("a", (1, 2, 3), (1, 2)),))
    told, said = gaps(Figure("f", "Speedup", "", torn), Figure("g", "Other", "", SPEEDUP))

    assert len(told) == 1 and told[0].startswith("A figure is missing here (Speedup): ValueError")
    assert said[0].startswith("figure f could not be shown")


def test_a_table_whose_rows_do_not_fit_its_head_is_a_sentence():
    told, _ = gaps(replace(TABLE, rows=(TABLE.rows[0][:2],)))
    assert told == [f"A table is missing here ({TABLE.title}): rows of 2 cells under 5 columns."]


def test_what_is_sound_stays_as_it_is():
    said: list[str] = []
    assert showable(specimen(), said.append) == specimen() and not said
