"""Short runs of the course's scripts under the watcher, all from one fork server and each made once."""

from collections.abc import Iterator

import pytest
from course_runner import Course

from scalewise.launch.forkserver import Servers
from watch.watch_runner import Runner, preloaded


@pytest.fixture(scope="session")
def course(tmp_path_factory: pytest.TempPathFactory, servers: Servers) -> Course:
    """Makes runs on demand; the same request is answered from the run that was made."""
    return Course(tmp_path_factory.mktemp("course"), servers)


@pytest.fixture(scope="module")
def unwatched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """Runs scripts without the watcher, with small constants, in copies of a process that has imported torch."""
    with preloaded(tmp_path_factory.mktemp("unwatched"), {"DIM": "32", "STEPS": "6"}) as opened:
        yield opened
