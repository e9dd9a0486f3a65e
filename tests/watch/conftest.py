"""One preloaded process serves all tests of the watcher."""

from collections.abc import Iterator

import pytest
from watch_runner import Runner, preloaded


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """One preloaded process for the whole session."""
    with preloaded(tmp_path_factory.mktemp("watch"), {}) as opened:
        yield opened
