"""Runs that are made together: each has a thread and a copy of the fork server to itself, and they take turns."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from scalewise.errors import BadRequest
from scalewise.launch.forkserver import Connection, ForkServer, Servers
from scalewise.records.folder import RunFolder, SuiteFolder
from scalewise.records.outcome import Outcome
from scalewise.records.spec import RunSpec

Make = Callable[[RunSpec, "Branches"], Outcome]


class Branches:
    """A copy of the right server for every run that asks, from whatever thread."""

    def __init__(self, servers: Servers) -> None:
        self.failed = False  # one of the runs could not be made at all, so the others are not worth finishing
        self._servers = servers
        self._lock = threading.Lock()
        self._used: list[ForkServer] = []

    def get(self, python: str, cwd: str, environment: Mapping[str, str], preload: bool) -> Connection:
        """One run's own server."""
        with self._lock:
            server = self._servers.get(python, cwd, environment, preload)
            self._used.append(server)
            return server.branch()

    def close(self) -> None:
        """Ends all copies."""
        for server in self._used:
            server.prune()


def make_together(specs: Sequence[RunSpec], folder: SuiteFolder, servers: Servers, make: Make) -> list[Outcome]:
    """The outcomes of all runs of a ring, when the last of them has ended."""
    branches = Branches(servers)

    def made(spec: RunSpec) -> Outcome:
        try:
            return make(spec, branches)
        except BaseException:
            branches.failed = True
            raise
        finally:
            for inbox in _inboxes(folder.run(spec.name), spec):
                inbox.unlink(missing_ok=True)  # its partners learn from this that it will not come any more

    try:
        with _pipes(specs, folder), ThreadPoolExecutor(len(specs)) as pool:
            futures = [pool.submit(made, spec) for spec in specs]
            return [future.result() for future in futures]
    finally:
        branches.close()


@contextmanager
def _pipes(specs: Sequence[RunSpec], folder: SuiteFolder) -> Iterator[None]:
    """By which the ranks hand on their turns; those of a ring that was killed may still be there."""
    inboxes = [inbox for spec in specs for inbox in _inboxes(folder.run(spec.name), spec)]
    place = inboxes[0].parent
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        for inbox in inboxes:
            _make_pipe(inbox)
        yield
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _make_pipe(path: Path) -> None:
    try:
        os.mkfifo(path)
    except OSError as error:
        raise BadRequest(
            f"runs cannot take turns in {path.parent.parent}: its disk takes no named pipes ({error.strerror})",
            "choose a folder on a local disk with --out",
        ) from error


def _inboxes(run: RunFolder, spec: RunSpec) -> list[Path]:
    assert spec.turns is not None
    return [run.inbox(spec.turns.ring, spec.turns.index, rank) for rank in range(spec.ranks)]
