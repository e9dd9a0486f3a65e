"""Puts this folder on the path of every test, so that `factories` can be imported from all of them.

A test that starts a process says so with the mark `processes`, or by a fixture that has one; `make quick` runs the
others.
"""

import gc
import importlib
import os
import signal
import sys
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings

from shared_servers import CommandLine, SharedServers, command_line, lend_to_jobs
from watch.watch_runner import Runner, preloaded

# Fixtures that start a process, for whichever test asks for them first.
WITH_PROCESSES = {
    "course",
    "observed",
    "ran",
    "replayed",
    "room",
    "runner",
    "scalewise",
    "servers",
    "trained",
    "unwatched",
}
STARTS = {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"}

# Images of containers often ask Python to keep no bytecode: every process of the tests would then compile scalewise.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A busy machine would miss hypothesis' deadline of 200 ms per example, and timing is never asserted here.
settings.register_profile("any_machine", deadline=None)
settings.load_profile("any_machine")

# A shell that runs the tests in the background has SIGINT ignored, and scalewise would rightly go on ignoring it.
signal.signal(signal.SIGINT, signal.default_int_handler)

running_without_processes = ""  # the test that runs now, if it may not start any


def refuse_processes(event: str, args: object) -> None:
    if running_without_processes and event in STARTS:
        raise RuntimeError(f"{running_without_processes} starts a process: it needs the mark `processes`")


sys.addaudithook(refuse_processes)


def pytest_configure(config: pytest.Config) -> None:
    """Lists this machine's fonts before any test: the first import of matplotlib on a machine asks other programs."""
    if not hasattr(config, "workerinput"):
        importlib.import_module("matplotlib.font_manager")


# Until all tests are collected, Python would look through hundreds of thousands of objects for rubbish that is not
# there: 2 of 5 s of each worker. What is there then stays until the end, and is not looked through again.
gc.disable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if WITH_PROCESSES & set(getattr(item, "fixturenames", ())):
            item.add_marker("processes")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """What is not marked may start no process; the hook of the interpreter outlives the test, so it looks at a name."""
    global running_without_processes
    running_without_processes = "" if item.get_closest_marker("processes") else item.nodeid
    try:
        return (yield)
    finally:
        running_without_processes = ""


@pytest.fixture(scope="session")
def servers() -> Iterator[SharedServers]:
    """The fork servers of this process, for tests of any room."""
    with SharedServers() as opened:
        yield opened


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """One preloaded process that runs scripts without a launcher, for tests of any room."""
    with preloaded(tmp_path_factory.mktemp("runner"), {}) as opened:
        yield opened


@pytest.fixture
def jobs_share_servers(servers: SharedServers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets every job that opens servers of its own use the shared ones."""
    lend_to_jobs(servers, monkeypatch)


@pytest.fixture
def scalewise(jobs_share_servers: None) -> CommandLine:
    """Runs a verb of the command line in this process, from the shared servers."""
    return command_line
