"""Runs torchrun itself: its command line, its logs, what it says of its ranks; also the text of `command.txt`."""

import contextlib
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil

from scalewise.launch import environment
from scalewise.launch.failure_logs import MODULE_MISSING, PORT_TAKEN, exception_line, last_lines, tail
from scalewise.launch.forkserver import Connection
from scalewise.launch.host_ranks import HostRanks, exit_from_status, first_rank
from scalewise.launch.verdict import Exit
from scalewise.records.folder import RunFolder
from scalewise.records.orders import ExecOrder
from scalewise.records.pulse import STACK_SIGNAL
from scalewise.records.spec import RunSpec

LABEL = "torchrun"
_FIRST_FAILURE = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+) ")
_SUMMARY = re.compile(r"\(local_rank: (\d+)\)\s*\n\s*exitcode\s*: (-?\d+)")
_ENDED_BY_TORCHRUN = re.compile(r"Sending process (\d+) closing signal")
_SIGTERM_STATUS = -15
# For torchrun a failed rank is alive until torchrun's next look; it looks ten times a second.
_GONE_SECONDS = 1.0


def torchrun_options(spec: RunSpec) -> list[str]:
    """The options by which the ranks find each other: alone on this machine, or by the first node's address.

    An address that is known only when the run starts is left to a shell.
    """
    if spec.nodes is None:
        return ["--standalone", f"--nproc-per-node={spec.ranks}"]
    return [
        f"--nnodes={spec.nodes.count}",
        f"--node-rank={spec.nodes.node_rank}",
        f"--master-addr={spec.nodes.master_address or '$MASTER_ADDR'}",
        f"--master-port={spec.nodes.master_port or '$MASTER_PORT'}",
        f"--nproc-per-node={spec.ranks}",
    ]


def torchrun_order(spec: RunSpec, folder: RunFolder, environment: dict[str, str]) -> ExecOrder:
    """The order for torchrun, with its output in one log and that of its ranks in a folder beside it."""
    log = str(_log(spec, folder))
    python = spec.python or sys.executable
    logs = ["--redirects=3", f"--log-dir={_log_folder(spec, folder)}"]
    argv = (python, "-m", "torch.distributed.run", *torchrun_options(spec), *logs, spec.script, *spec.args)
    return ExecOrder(LABEL, argv, spec.cwd, log, log, environment)


class TorchrunRanks(HostRanks):
    """The ranks of one torchrun; known by the processes it has and by its log."""

    def begin(self, server: Connection, order: ExecOrder) -> None:
        """Starts torchrun."""
        self._server = server
        self._processes: dict[int, psutil.Process] = {}  # by rank; they know when their number was given to another
        self._gone: dict[int, float] = {}
        self._status: int | None = None
        self._pid = 0
        server.order(order)

    @property
    def over(self) -> bool:
        """Tells whether torchrun has ended."""
        return self._status is not None

    def wait(self, seconds: float) -> None:
        """Looks at torchrun's end, its log, and which of the ranks' processes are still there."""
        for event in self._server.events(seconds):
            if event["label"] == LABEL and event["event"] == "started":
                self._pid = event["pid"]
            elif event["label"] == LABEL:
                self._status = event["code"]
        if len(self.pids) < self.spec.ranks:
            self._processes |= _ranks_of(self._pid)
            self.pids = {rank: process.pid for rank, process in self._processes.items()}
        self._take_failures()
        if self._status == 0:
            self._take_rest(0)
        elif self._status is not None and not any(not end.clean for end in self.exits.values()):
            self._take_failures_from_ranks()
        elif self._status is not None:
            self._take_earlier_exits()
        elif not self.exits or all(end.clean for end in self.exits.values()):
            self._take_quiet_exits()

    def ask_for_stacks(self, rank: int) -> None:
        """Signals the rank, but only if the watcher has made its stack file: an unwatched rank would die of it."""
        if rank in self._processes and self.folder.stack(rank).exists():
            with contextlib.suppress(psutil.Error):
                self._processes[rank].send_signal(STACK_SIGNAL)

    def end(self) -> None:
        """Kills torchrun with its ranks and gives the ranks' logs their names in the run's folder."""
        self._server.clean()
        for rank in self.ranks:
            for name, place in (("stdout.log", self.folder.stdout(rank)), ("stderr.log", self.folder.stderr(rank))):
                found = self._rank_log(rank, name)
                if found is not None:
                    shutil.move(found, place)
        shutil.rmtree(_log_folder(self.spec, self.folder), ignore_errors=True)

    def start_problem(self) -> tuple[str, str]:
        """Returns torchrun's last line of output and a hint if it has started no rank; else two empty texts."""
        if self.pids or self.exits:
            return "", ""
        words = self.last_words()
        lines = last_lines(words)
        hint = "torchrun.log in the run's folder says why"
        if PORT_TAKEN.search(words):
            hint = "the port of the first node is taken: choose another master port"
        elif MODULE_MISSING.search(words):
            hint = "install torch in the interpreter of the ranks: pip install 'torch>=2.11,<2.16'"
        return f"torchrun could not start: {lines[-1] if lines else 'it said nothing'}", hint

    def last_words(self) -> str:
        """The last part of torchrun's own log."""
        return tail(_log(self.spec, self.folder))

    def _rank_log(self, rank: int, name: str) -> Path | None:
        local = rank - first_rank(self.spec)
        found = sorted(_log_folder(self.spec, self.folder).glob(f"*/attempt_0/{local}/{name}"))
        return found[-1] if found else None

    def _take_failures(self) -> None:
        for index, (local_rank, status) in enumerate(read_failures(self.last_words())):
            rank = first_rank(self.spec) + local_rank
            ended_by_torchrun = index > 0 and status == _SIGTERM_STATUS
            if rank not in self.exits and not ended_by_torchrun:
                self._take(rank, status)

    def _take_quiet_exits(self) -> None:
        now = self.seconds
        for rank, process in self._processes.items():
            if rank in self.exits or _runs(process):
                continue
            gone = self._gone.setdefault(rank, now)
            if now - gone > _GONE_SECONDS:
                self.exits[rank] = Exit(0, None, gone)

    def _take_earlier_exits(self) -> None:
        """Records ranks that left in order before the first failure: torchrun neither named nor ended them."""
        log = self.last_words()
        named = {first_rank(self.spec) + local for local, _ in read_failures(log)}
        ended = {int(pid) for pid in _ENDED_BY_TORCHRUN.findall(log)}
        failed_seconds = min(end.at_seconds for end in self.exits.values() if not end.clean)
        for rank, pid in self.pids.items():
            if rank not in self.exits and rank not in named and pid not in ended:
                self.exits[rank] = Exit(0, None, min(failed_seconds, self._gone.get(rank, failed_seconds)))

    def _take_failures_from_ranks(self) -> None:
        """Records the ranks as failed whose log ends with a traceback, for torchrun's log names no rank."""
        for rank in self.ranks:
            log = self._rank_log(rank, "stderr.log")
            if rank not in self.exits and log is not None and exception_line(tail(log)):
                self._take(rank, 1)

    def _take_rest(self, status: int) -> None:
        for rank in self.ranks:
            if rank not in self.exits:
                self._take(rank, status)

    def _take(self, rank: int, status: int) -> None:
        stderr = self._rank_log(rank, "stderr.log") or Path(os.devnull)
        self.exits[rank] = exit_from_status(status, self.seconds, stderr)


def _ranks_of(torchrun: int) -> dict[int, psutil.Process]:
    """The processes that torchrun has started, by their ranks."""
    try:
        started = psutil.Process(torchrun).children()
    except psutil.Error:
        return {}
    found = {}
    for process in started:
        with contextlib.suppress(psutil.Error):
            variables = process.environ()
            if "LOCAL_RANK" in variables and "RANK" in variables:
                found[int(variables["RANK"])] = process
    return found


def _runs(process: psutil.Process) -> bool:
    """Tells whether the process exists and is not yet a zombie."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def read_failures(log: str) -> tuple[tuple[int, int], ...]:
    """Local ranks and statuses that torchrun's log names as failed, the first one that it noticed in front."""
    first = [(int(local), int(status)) for status, local in _FIRST_FAILURE.findall(log)]
    others = [(int(local), int(status)) for local, status in _SUMMARY.findall(log)]
    return tuple(dict.fromkeys([*first, *others]))


def _log(spec: RunSpec, folder: RunFolder) -> Path:
    return folder.path / (f"torchrun.node{spec.nodes.node_rank}.log" if spec.nodes else "torchrun.log")


def _log_folder(spec: RunSpec, folder: RunFolder) -> Path:
    return folder.path / (f"torchrun.node{spec.nodes.node_rank}" if spec.nodes else "torchrun")


_IN_PLACE = "# It works in the folder itself: what the script writes stays there.\n"


def command_text(spec: RunSpec, spec_path: Path, isa_cap: str, user: Mapping[str, str]) -> str:
    """Two commands: one with the watcher, whose records go to a new folder, and as a comment one without it."""
    visible = environment.visible(spec, user)
    changed = {name: value for name, value in visible.items() if user.get(name) != value}
    hidden = environment.hidden(spec, visible, spec_path, Path(), isa_cap)
    guards = {name: hidden[name] for name in filter(None, hidden[environment.HIDE].split(","))}
    plain = _line(_assignments(changed | guards), spec)
    inject = shlex.quote(environment.INJECT)
    watcher = [
        f"PYTHONPATH={inject}${{PYTHONPATH:+:$PYTHONPATH}}",
        *_assignments({environment.SPEC: str(spec_path), environment.HIDE: hidden[environment.HIDE]}),
        f'{environment.OUT}="$out"',
    ]
    if "PYTHONPATH" in changed:
        changed.pop("PYTHONPATH")
        watcher[0] = f"PYTHONPATH={shlex.quote(hidden['PYTHONPATH'])}"
    watched = _line([*_assignments(changed | guards), *watcher], spec)
    return (
        f"# Repeats the run {spec.name}: the same ranks and the same watcher, records in a new folder.\n"
        f"{_IN_PLACE if spec.folder_use == 'private' else ''}"
        f'cd {shlex.quote(spec.cwd)} && out="$(mktemp -d)" && {watched} && echo "records in $out"\n'
        f"\n# The same without the watcher:\n"
        f"# cd {shlex.quote(spec.cwd)} && {plain}\n"
    )


def _assignments(variables: Mapping[str, str]) -> list[str]:
    return [f"{name}={shlex.quote(value)}" for name, value in sorted(variables.items())]


def _line(assignments: list[str], spec: RunSpec) -> str:
    return " ".join([*assignments, *_program(spec), shlex.quote(spec.script), *map(shlex.quote, spec.args)])


def _program(spec: RunSpec) -> list[str]:
    python = Path(spec.python or sys.executable)
    if spec.mode == "python":
        return [shlex.quote(str(python))]
    torchrun = python.parent / "torchrun"
    found = [str(torchrun)] if torchrun.is_file() else [str(python), "-m", "torch.distributed.run"]
    return [shlex.quote(part) for part in found] + torchrun_options(spec)
