"""Makes runs together that take turns: each has a thread and a copy of the fork server to itself."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from scalewise.errors import BadRequest
from scalewise.launch import environment
from scalewise.launch.forkserver import (
    Connection,
    ForkServer,
    ServerDied,
    Servers,
    ServerSource,
    user_environment,
)
from scalewise.records.folder import RunFolder, SuiteFolder
from scalewise.records.outcome import Outcome
from scalewise.records.spec import RunSpec

Make = Callable[[RunSpec, ServerSource, Callable[[], bool]], Outcome]


class _Copy:
    """The server of one run: a copy made for it, or the reason why there is none."""

    def __init__(self, spec: RunSpec, servers: Servers) -> None:
        self._server: ForkServer | None = None
        try:
            visible = environment.visible(spec, user_environment())
            self._server = servers.get(spec.python, spec.cwd, visible, preload=True)
            self._copy: Connection | ServerDied = self._server.branch()
        except ServerDied as death:
            self._copy = death

    def get(self, python: str, cwd: str, variables: Mapping[str, str], preload: bool) -> Connection:
        """Returns the copy, whatever the arguments; raises if there is none."""
        if isinstance(self._copy, ServerDied):
            raise self._copy
        return self._copy

    def close(self) -> None:
        """Ends the copy, and all other copies of its server."""
        if self._server is not None:
            self._server.prune()


def make_together(specs: Sequence[RunSpec], folder: SuiteFolder, servers: Servers, make: Make) -> list[Outcome]:
    """Makes all runs of a ring and returns their outcomes when the last of them has ended."""
    unable = threading.Event()  # one run could not be made at all, so the others are not worth finishing

    def made(spec: RunSpec, copy: _Copy) -> Outcome:
        try:
            return make(spec, copy, unable.is_set)
        except BaseException:
            unable.set()
            raise
        finally:
            for inbox in _inboxes(folder.run(spec.name), spec):
                inbox.unlink(missing_ok=True)  # this tells its partners that it will not come any more

    # Done in this thread: the kernel ends a server with the thread that has started it.
    copies = [_Copy(spec, servers) for spec in specs]
    try:
        with _pipes(specs, folder), ThreadPoolExecutor(len(specs)) as pool:
            futures = [pool.submit(made, spec, copy) for spec, copy in zip(specs, copies, strict=True)]
            return [future.result() for future in futures]
    finally:
        for copy in copies:
            copy.close()


@contextmanager
def _pipes(specs: Sequence[RunSpec], folder: SuiteFolder) -> Iterator[None]:
    """Creates the pipes through which the ranks pass on their turns; those of a killed ring are removed first."""
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
