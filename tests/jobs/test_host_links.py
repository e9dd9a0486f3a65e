"""What jobs do over several hosts: the link file of what lies between them, and runs that need an allocation."""

from pathlib import Path

import pytest

from factories import make_machine
from scalewise.errors import BadRequest
from scalewise.jobs.host_links import link_text
from scalewise.jobs.measure import Here, Where, measure_here
from scalewise.jobs.reporter import SILENT
from scalewise.launch.forkserver import Servers
from scalewise.plan.adhoc import script_suite
from scalewise.predict.link import Wire
from scalewise.predict.link_file import link_from_file
from scalewise.predict.wire_fit import WireFit

INSIDE = WireFit(Wire(2e-5, 1e-6, 5e9, 1e-10), (), (0.01, -0.02), ())
BETWEEN = WireFit(Wire(6e-5, 2e-5, 1e9, 2e-10), (), (0.1, -0.1), ())


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "link.toml").write_text(link_text(INSIDE, BETWEEN, "n1"))
    link = link_from_file(tmp_path / "link.toml", per_node=4)
    assert link.between is not None and link.ranks_per_node == 4
    assert link.between.bytes_per_second == pytest.approx(1e9) and link.inside.hop_seconds == pytest.approx(1e-6)
    assert link.between.handled_seconds_per_byte == pytest.approx(2e-10)


def test_hosts_of_one_rank_each_have_one_wire(tmp_path: Path) -> None:
    (tmp_path / "link.toml").write_text(link_text(None, BETWEEN, "n1"))
    link = link_from_file(tmp_path / "link.toml")
    assert link.between is None and link.inside.start_seconds == pytest.approx(6e-5)


def test_runs_under_slurm_need_an_allocation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    (tmp_path / "train.py").write_text("print('trains')\n")
    suite = script_suite(tmp_path / "train.py", ranks=(2,), nodes=(2,), launcher="slurm")
    assert suite.under_slurm and suite.most_nodes == 2
    with Servers() as servers, pytest.raises(BadRequest, match="need an allocation") as caught:
        measure_here(suite, SILENT, Where(tmp_path), Here(servers, make_machine()))
    assert "salloc" in caught.value.hint
