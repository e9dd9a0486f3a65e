"""One preloaded process serves the tests that compare single runs."""

from collections.abc import Iterator

import pytest

from watch.watch_runner import Runner, preloaded


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    with preloaded(tmp_path_factory.mktemp("strategies"), {}) as opened:
        yield opened
