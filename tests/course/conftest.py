"""Short runs of the course's scripts under the watcher, all from one fork server and each made once."""

import pytest
from course_runner import Course

from scalewise.launch.forkserver import Servers


@pytest.fixture(scope="session")
def course(tmp_path_factory: pytest.TempPathFactory, servers: Servers) -> Course:
    """Makes runs on demand; the same request is answered from the run that was made."""
    return Course(tmp_path_factory.mktemp("course"), servers)
