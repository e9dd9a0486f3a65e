"""One preloaded process serves all tests of the watcher."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from watch_runner import SAFE_ISA, Runner


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """One preloaded process for the whole session."""
    folder = tmp_path_factory.mktemp("watch")
    environment = {**os.environ, **SAFE_ISA}
    command = [sys.executable, str(Path(__file__).parent / "preloaded.py")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder
    ) as server:
        assert server.stdout is not None and server.stdout.readline() == "ready\n"  # however long torch takes to load
        yield Runner(folder, server)
        assert server.stdin is not None
        server.stdin.close()
