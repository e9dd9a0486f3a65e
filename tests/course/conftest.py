"""Short runs of the course's scripts under the watcher, all from one fork server and each made once."""

from collections.abc import Iterator

import pytest
from course_runner import Course

from scalewise.launch.forkserver import Servers


@pytest.fixture(scope="session")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Course]:
    """Makes runs on demand; the same request is answered from the run that was made."""
    with Servers() as servers:
        yield Course(tmp_path_factory.mktemp("course"), servers)
