"""A folder in which scripts for one device are measured under strategies, and the same strategies written by hand."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalewise.agreement.strategy_table import StrategiesAnswer
from scalewise.jobs.measure import Here, Where, measure_here
from scalewise.jobs.reporter import SILENT
from scalewise.jobs.strategies import strategies_here
from scalewise.jobs.strategy_runs import StrategiesRequest
from scalewise.launch.this_machine import machine_facts
from scalewise.plan.adhoc import script_suite
from scalewise.plan.words import parse_changes
from shared_servers import SharedServers


class Room:
    """Runs scripts that are given as text."""

    def __init__(self, folder: Path, servers: SharedServers) -> None:
        self.folder = folder
        self._here = Here(servers, machine_facts(servers))
        self._number = 0

    def compare(self, text: str, *only: str, **options: object) -> StrategiesAnswer:
        """Compares strategies of a script, with few steps."""
        known = {"steps": 8, "repeats": 1, "causes": False, "device": "cpu", **options}
        request = StrategiesRequest(self._script(text), only=only, out=self.folder / "runs", **known)  # type: ignore[arg-type]
        with contextlib.chdir(self.folder):
            return strategies_here(request, SILENT, self._here)

    def printed(self, text: str, change: str = "none", ranks: int = 2) -> list[str]:
        """The last line that each rank prints, of a run with a change."""
        suite = script_suite(self._script(text), ranks=(ranks,), device="cpu", changes=(parse_changes(change),))
        with contextlib.chdir(self.folder):
            folder, _ = measure_here(suite, SILENT, Where(self.folder / "runs", again=True), self._here)
        (run,) = folder.runs()
        last = []
        for rank in range(ranks):
            lines = run.stdout(rank).read_text().splitlines()
            last.append(lines[-1] if lines else run.stderr(rank).read_text()[-2000:])
        return last

    def _script(self, text: str) -> Path:
        self._number += 1
        path = self.folder / f"train{self._number}.py"
        path.write_text(text)
        return path


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory, servers: SharedServers) -> Iterator[Room]:
    yield Room(tmp_path_factory.mktemp("strategies"), servers)
