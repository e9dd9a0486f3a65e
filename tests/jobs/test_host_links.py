"""What jobs do over several hosts: the link file of what lies between them, and runs that need an allocation."""

from pathlib import Path

import pytest

from factories import make_machine
from scalewise.errors import BadRequest
from scalewise.jobs.host_links import PlacedReduces, link_text
from scalewise.jobs.measure import Here, Where, measure_here
from scalewise.jobs.reporter import SILENT, Lines
from scalewise.launch.forkserver import Servers
from scalewise.plan.adhoc import script_suite
from scalewise.predict.collective_times import all_reduce, seconds
from scalewise.predict.link import Link, Wire
from scalewise.predict.link_file import link_from_file
from scalewise.predict.wire_fit import MeasuredCollective

SIZES = [4.0 * 8**power for power in range(9)]
INSIDE = Link("inside", Wire(2e-5, 1e-6, 5e9))
BETWEEN = Link("between", Wire(6e-5, 2e-5, 1e9))


def placed(link: Link, ranks: int, nodes: int, slower: float = 1.0) -> PlacedReduces:
    points = [MeasuredCollective(ranks, size, slower * all_reduce(link, size, ranks)) for size in SIZES]
    return PlacedReduces(ranks, nodes, tuple(points))


def written(folder: Path, *lists: list[PlacedReduces], told: list[str] | None = None) -> Path:
    (folder / "link.toml").write_text(link_text(*lists, "n1", Lines((told if told is not None else []).append)))
    return folder / "link.toml"


def test_what_is_measured_inside_between_and_together_is_read_back(tmp_path: Path) -> None:
    inside = [placed(INSIDE, 2, 1), placed(INSIDE, 4, 1)]
    between = [placed(BETWEEN, 2, 2), placed(BETWEEN, 3, 3)]
    link = link_from_file(written(tmp_path, inside, between, [placed(BETWEEN, 12, 3, 1.5)]), per_node=4)
    assert link.between is not None and link.ranks_per_node == 4
    assert link.between.bytes_per_second == pytest.approx(1e9, rel=0.02)
    assert link.inside.bytes_per_second == pytest.approx(5e9, rel=0.02)
    assert [(one.ranks, one.nodes) for one in link.curves] == [(2, 1), (4, 1), (2, 2), (3, 3), (12, 3)]
    assert seconds(link, "all_reduce", SIZES[-1], 4) == pytest.approx(all_reduce(INSIDE, SIZES[-1], 4), rel=0.01)
    assert seconds(link, "all_reduce", SIZES[-1], 12) == pytest.approx(
        1.5 * all_reduce(BETWEEN, SIZES[-1], 12), rel=0.01
    )


def test_hosts_of_one_rank_each_have_one_wire(tmp_path: Path) -> None:
    link = link_from_file(written(tmp_path, [], [placed(BETWEEN, 2, 2)], []))
    assert link.between is None and link.inside.bytes_per_second == pytest.approx(1e9, rel=0.02)
    assert seconds(link, "all_reduce", SIZES[-1], 2) == pytest.approx(all_reduce(BETWEEN, SIZES[-1], 2), rel=0.01)


def test_times_that_follow_no_law_are_kept_with_a_wide_spread_and_a_sentence(tmp_path: Path) -> None:
    jumps = [1.0, 9.0, 0.2, 6.0, 0.1, 8.0, 0.3, 1.0, 1.0]
    points = [
        MeasuredCollective(2, size, jump * all_reduce(BETWEEN, size, 2))
        for size, jump in zip(SIZES, jumps, strict=True)
    ]
    told: list[str] = []
    link = link_from_file(written(tmp_path, [], [PlacedReduces(2, 2, tuple(points))], [], told=told))
    assert "follow no simple law" in told[0]
    assert link.spread > 0.5
    assert seconds(link, "all_reduce", SIZES[3], 2) == pytest.approx(6 * all_reduce(BETWEEN, SIZES[3], 2), rel=0.01)


def test_times_in_which_larger_messages_are_not_slower_are_refused() -> None:
    points = tuple(MeasuredCollective(2, size, 1e-3) for size in SIZES)
    with pytest.raises(BadRequest, match="among 2 ranks on 2 hosts could not be measured"):
        link_text([], [PlacedReduces(2, 2, points)], [], "n1", SILENT)


def test_runs_under_slurm_need_an_allocation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    (tmp_path / "train.py").write_text("print('trains')\n")
    suite = script_suite(tmp_path / "train.py", ranks=(2,), nodes=(2,), launcher="slurm")
    assert suite.under_slurm and suite.most_nodes == 2
    with Servers() as servers, pytest.raises(BadRequest, match="need an allocation") as caught:
        measure_here(suite, SILENT, Where(tmp_path), Here(servers, make_machine()))
    assert "salloc" in caught.value.hint
