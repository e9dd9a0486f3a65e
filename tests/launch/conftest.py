"""Runs of small scripts, made by the real launchers from one fork server for all tests."""

import dataclasses
from pathlib import Path
from typing import Any

import psutil
import pytest
from launch_runner import Launch, Launched, machine_here, spec_of

from scalewise.launch.forkserver import Servers
from scalewise.launch.local import launcher_of
from scalewise.launch.supervise import run_one
from scalewise.records.codec import write_json
from scalewise.records.folder import RunFolder


@pytest.fixture
def launch(servers: Servers, tmp_path: Path) -> Launch:
    """Makes one run and checks that nothing of it is left."""

    def make(script: str, *args: str, **changes: Any) -> Launched:
        spec = dataclasses.replace(spec_of(script, *args), **changes)
        folder = RunFolder(tmp_path / f"{len(list(tmp_path.iterdir()))}")
        folder.path.mkdir()
        write_json(folder.spec, spec)
        heard: list[float] = []
        launcher = launcher_of(spec, machine_here(), servers)
        outcome = run_one(spec, folder, launcher, lambda _, now: heard.append(now), lambda: False)
        left = [other for child in psutil.Process().children() for other in child.children(recursive=True)]
        assert left == []
        return Launched(outcome, folder)

    return make
