"""Sections for any suite: what the table and the figures of an experiment show, and what they leave out."""

from dataclasses import replace

from factories import make_outcome, make_run, make_suite, noisy
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.summary import summarise
from scalewise.records.rows import MemoryRow
from scalewise.records.spec import Change
from scalewise.report.document import BarPlot, Figure, LinePlot, Paragraph, Section, Table
from scalewise.report.sections.any_experiment import build


def section_of(*runs) -> Section:
    loaded = make_suite(*runs)
    (section,) = build(Evidence(loaded, summarise(loaded), (), None))
    return section


def table_of(section: Section) -> Table:
    (table,) = [block for block in section.blocks if isinstance(block, Table) and block.id == "exp-steps"]
    return table


def figures(section: Section) -> dict[str, Figure]:
    return {block.id: block for block in section.blocks if isinstance(block, Figure)}


def scaling_runs():
    return [make_run(noisy(60, seconds, ranks), ranks=ranks) for ranks, seconds in ((1, 8e-3), (2, 5e-3), (4, 4e-3))]


def test_ranks_get_speedups_and_a_figure_with_the_ideal_line():
    section = section_of(*scaling_runs())
    plot = figures(section)["exp-speedup"].plot

    assert [column.title for column in table_of(section).columns][-3:] == ["speedup", "efficiency", "serial fraction"]
    assert isinstance(plot, LinePlot) and [one.style for one in plot.series] == ["ideal", "measured"]
    assert plot.series[0].y[-1] == 4.0 and plot.x_ticks == (1, 2, 4)


def test_the_answer_stands_before_the_table():
    first, second, *_ = section_of(*scaling_runs()).blocks

    assert isinstance(first, Paragraph) and first.text.startswith("1 rank: ")
    assert isinstance(second, Paragraph) and second.text.startswith("2 ranks are faster than 1 rank: ")


def test_one_arm_alone_has_no_speedup_but_a_trace_with_its_warm_up():
    section = section_of(make_run([0.05, *noisy(60, 5e-3, 0)]))
    plot = figures(section)["exp-trace"].plot

    assert "exp-speedup" not in figures(section)
    assert [column.title for column in table_of(section).columns] == ["ranks", "step", "throughput"]
    assert isinstance(plot, LinePlot) and plot.spans[0].label == "warm-up" and plot.spans[0].end >= 1.5


def test_a_failed_arm_is_a_row_with_its_reason():
    bad = make_run(noisy(40, 5e-3, 1), ranks=2, outcome=make_outcome("raised", "Rank 0 raised KeyError: x."))
    table = table_of(section_of(make_run(noisy(40, 5e-3, 0)), bad))

    assert table.rows[1][1].mark == "failed" and "KeyError" in table.rows[1][1].note
    assert any("KeyError" in note for note in table.notes)


def test_oversubscribed_arms_are_marked_and_have_no_speedup():
    four = make_run(noisy(60, 9e-3, 4), ranks=4, oversubscribed=True)
    section = section_of(*scaling_runs()[:2], four)
    anatomy = figures(section)["exp-anatomy"].plot

    assert table_of(section).rows[2][-1].number is None and table_of(section).rows[2][1].mark == "oversubscribed"
    assert isinstance(anatomy, BarPlot) and anatomy.marks == ("measured", "measured", "oversubscribed")


def test_what_was_changed_is_a_column_of_its_own():
    removed = make_run(noisy(60, 4e-3, 3), ranks=2, changes=(Change("remove_communication"),), name="other")
    table = table_of(section_of(*scaling_runs()[:2], removed))
    assert table.columns[0].title == "changed" and "remove communication" in [row[0].text for row in table.rows]


def test_unequal_work_is_said_to_have_no_speedup():
    other = make_run(noisy(60, 5e-3, 2), ranks=2, model={"parameters": 7})
    section = section_of(scaling_runs()[0], other)
    assert any(text.startswith("No speedup for") and "parameters differ" in text for text in table_of(section).notes)


def with_memory(run, peak: int):
    rank = run.ranks[0]
    row = MemoryRow(10, peak, 0, 4000, 4000, 0, None, None, None, None)
    return replace(run, ranks=(replace(rank, memory=(row,)), *run.ranks[1:]))


def test_memory_is_drawn_where_it_differs_and_else_only_told():
    one, two = (make_run(noisy(40, 5e-3, ranks), ranks=ranks) for ranks in (1, 2))
    alike = section_of(with_memory(one, 2**28), with_memory(two, 2**28 + 2**20))
    apart = section_of(with_memory(one, 2**28), with_memory(two, 2**29))

    assert "exp-memory" not in figures(alike) and "exp-memory" in figures(apart)
    assert any("Peak memory of a rank's process: 256 MiB to 257 MiB." in note for note in table_of(alike).notes)
