"""The benchmark of clusters: what a rule holds back, what each way says, and plots that are drawn."""

import pytest
from bench.clusters import ALONE, CARRIED, FITTED, NAMED, foreseen, run

from made_clusters import FEW, MORE, MadeCluster, made_rows, write_table
from scalewise.errors import BadRequest

MADE = {"net": MadeCluster(), "wide": MadeCluster(between_seconds=1.5)}
ROWS = made_rows(MADE, (*FEW, *MORE), noise=0.02)


def test_only_rows_that_were_held_back_are_predicted():
    found = foreseen(ROWS, "nodes>2", {})
    assert {one.row.placement.nodes for one in found} == {3, 4, 8}
    assert {one.way for one in found} == {FITTED, CARRIED, ALONE}


def test_without_rows_of_two_nodes_there_is_no_fit_but_a_named_link():
    found = foreseen(ROWS, "nodes>1", {"made": "pcie3+ethernet-25g"})
    assert {one.way for one in found} == {NAMED, CARRIED, ALONE}


def test_each_placement_is_held_back_once():
    found = [one for one in foreseen(ROWS, "each", {}) if one.way == FITTED]
    assert len(found) == len([row for row in ROWS if row.placement.gpus > 1])


def test_an_unknown_rule_is_refused():
    with pytest.raises(BadRequest, match="no such rule"):
        foreseen(ROWS, "ranks>2", {})


def test_it_prints_and_draws_and_leaves_out_lines_that_cannot_be_read(tmp_path, capsys):
    path = write_table(tmp_path / "steps.csv", ROWS)
    path.write_text(path.read_text() + "made,net,2,1,,8,0.1,0.0\n")
    told = run(False, False, path, None, [], tmp_path / "plots")
    printed = capsys.readouterr().out
    assert "left out: line" in printed
    assert "carried on" in printed
    [figures] = told.values()
    assert isinstance(figures, dict)
    assert figures[FITTED]["mean error"] < 0.15
    assert {one.name for one in (tmp_path / "plots").iterdir()} == {"cluster-errors.svg", "cluster-coverage.svg"}
