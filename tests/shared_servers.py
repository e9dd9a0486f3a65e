"""Fork servers that all tests of a process share, and the command line in this process, which uses them.

A fork server costs 2.5 s of CPU time, because it imports torch. The product starts one for each working folder, as a
script could notice from which folder torch was imported. Nothing that these tests ask for can.
"""

import contextlib
import importlib
import io
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import scalewise.jobs
from scalewise.cli import main
from scalewise.launch.forkserver import ForkServer, Servers

CommandLine = Callable[..., CompletedProcess[str]]


class SharedServers(Servers):
    """Fork servers that stand in no run's folder, so that runs of every folder can come from one of them."""

    kept = 6  # numbers of threads and what else a server is started with are few, but more than in one campaign

    def get(self, python: str, cwd: str, environment: Mapping[str, str], preload: bool) -> ForkServer:
        """Returns a live server whose ranks go to their folder after the fork, as all ranks do."""
        assert Path(cwd).is_dir()
        return super().get(python, "/", environment, preload)

    @contextlib.contextmanager
    def lent(self) -> Iterator[Servers]:
        """Stands for the servers that a job opens and closes: its processes end with it, the servers stay."""
        try:
            yield self
        finally:
            for server in self._servers.values():
                server.prune()
                if server.alive:
                    server.clean()


def lend_to_jobs(servers: SharedServers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives every module of the product that opens servers these ones."""
    for found in pkgutil.iter_modules(scalewise.jobs.__path__):
        importlib.import_module(f"{scalewise.jobs.__name__}.{found.name}")  # the verbs import them only when they run
    for name, module in list(sys.modules.items()):
        uses = name.startswith("scalewise.") and getattr(module, "Servers", None) is Servers
        if uses and name != Servers.__module__:
            monkeypatch.setattr(module, "Servers", servers.lent)


def command_line(*words: str, cwd: Path, env: Mapping[str, str] | None = None) -> CompletedProcess[str]:
    """A verb as `python -m scalewise` runs it, in this process: its exit code and what it prints."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    before, folder = dict(os.environ), Path.cwd()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
        try:
            os.chdir(cwd)
            os.environ.update(env or {})
            main(words)
        finally:
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(before)
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    return CompletedProcess(words, int(ended.value.code or 0), *texts)
