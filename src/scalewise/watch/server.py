"""Runs the fork server: it imports torch once, then turns each of the parent's orders into a fresh process.

It stays single-threaded, runs no torch operation and never touches CUDA, because every rank starts as a copy of it.
`serve` returns a job only in a forked child, which runs it at the top of its own stack: the interpreter then shuts down
in the child as it does after `python script.py`, with its atexit calls, thread joins and flushes. Two jobs are short
enough to stand here: a training step in one precision, and the agent that hosts the ranks' key-value store.
"""

import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scalewise.records.codec import decode
from scalewise.records.orders import ExecOrder, ProbeOrder, RankOrder, ViewOrder
from scalewise.watch import bindings, exit_workarounds

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

# The modules that scripts import, and those that DDP, the optimizers and the DataLoader import only when first used.
# All but the first may be missing from a build or a version of torch: a rank then imports, or misses, them as it would
# anywhere.
PRELOAD = (
    "torch",
    "numpy",
    "torch.distributed",
    "torch._dynamo",
    "torch.nn.parallel",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "torch.distributed.tensor.parallel",
    "torch.distributed.elastic.multiprocessing.errors",
    "torch.optim",
    "torch.optim.lr_scheduler",
    "torch.amp",
    "torch.utils.data",
    "torch.utils.data.distributed",
    "torch.utils.serialization",
    "torch.profiler._cupti_monitor",
    "multiprocessing.popen_fork",
    "multiprocessing.queues",
    "multiprocessing.synchronize",
    "scalewise.watch.arm",
    "scalewise.watch.hooks",
)

Job = Callable[[], None]


def serve(descriptor: int, preload: bool) -> Job | None:
    """Carries out orders until the parent is gone; returns a job in a child, None in the server."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)  # the import of torch takes a while
    ready: dict[str, Any] = {"event": "ready", "pid": os.getpid()}
    if preload:
        ready |= _import_all()
        exit_workarounds.spare_finalizers_at_exit()
        exit_workarounds.spare_libraries_at_exit()
    server = _Server(descriptor)
    server.say(ready)
    return server.loop()


def _import_all() -> dict[str, Any]:
    spared, before = exit_workarounds.spare_modules_at_exit(), set(sys.modules)
    try:
        importlib.import_module(PRELOAD[0])
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    for name in PRELOAD[1:]:
        try:
            importlib.import_module(name)
        except Exception:
            continue
    spared.update((name, module) for name, module in sys.modules.items() if name not in before)
    bindings.look_through_modules()
    gc.collect()
    gc.freeze()
    return {"versions": _versions()}


def _versions() -> dict[str, str]:
    import torch

    versions = {"torch": str(torch.__version__)}
    if torch.version.cuda:
        versions["cuda"] = torch.version.cuda
        try:
            versions["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        except Exception:
            versions["nccl"] = "not found"
    return versions


class _Server:
    def __init__(self, descriptor: int) -> None:
        _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        self.connection = socket.socket(fileno=descriptor)
        self.received = b""
        self.descriptors: list[int] = []  # that came with the parent's last message
        self.labels: dict[int, str] = {}
        self.leaving = False
        self.bell, self.bell_end = socket.socketpair()
        self.bell.setblocking(False)
        self.bell_end.setblocking(False)
        signal.set_wakeup_fd(self.bell_end.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGTERM, self._leave)

    def _leave(self, number: int, frame: object) -> None:
        self.leaving = True

    def loop(self) -> Job | None:
        while not self.leaving:
            readable, _, _ = select.select([self.connection, self.bell], [], [])
            if self.bell in readable:
                self.bell.recv(4096)
                self.reap()
            if self.connection in readable:
                data, self.descriptors, _, _ = socket.recv_fds(self.connection, 1 << 20, 1)
                if not data:
                    break
                job = self.obey_all(data)
                if job is not None:
                    return job
        self.kill_all()
        return None

    def obey_all(self, data: bytes) -> Job | None:
        *lines, self.received = (self.received + data).split(b"\n")
        for line in lines:
            job = self.obey(json.loads(line))
            if job is not None:
                return job
        return None

    def obey(self, request: dict[str, Any]) -> Job | None:
        match request["do"]:
            case "rank":
                return self.fork_rank(decode(RankOrder, request))
            case "probe":
                return self.fork_probe(decode(ProbeOrder, request))
            case "exec":
                self.fork_exec(decode(ExecOrder, request))
            case "store":
                self.fork_store()
            case "view":
                self.fork_view(decode(ViewOrder, request))
            case "branch":
                return self.fork_branch(self.descriptors.pop())
            case "signal":
                self.send_signal(request["label"], request["signal"])
            case "clean":
                self.kill_all()
                self.say({"event": "clean"})
        return None

    def say(self, event: dict[str, Any]) -> None:
        try:
            self.connection.sendall(json.dumps(event).encode() + b"\n")
        except OSError:
            self.leaving = True

    def fork(self, label: str) -> bool:
        """Forks; returns True in the child, which has closed everything that belongs to the server."""
        pid = os.fork()
        if pid == 0:
            self.let_go()
            return True
        self.labels[pid] = label
        self.say({"event": "started", "label": label, "pid": pid})
        return False

    def let_go(self) -> None:
        # The kernel forgets this setting on fork, so it is asked for again before anything can go wrong.
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for end in (self.connection, self.bell, self.bell_end):
            end.close()

    def fork_rank(self, order: RankOrder) -> Job | None:
        if not self.fork(order.label):
            return None
        from scalewise.watch.child_init import become_rank

        return become_rank(order)

    def fork_probe(self, order: ProbeOrder) -> Job | None:
        if not self.fork(order.label):
            return None
        return lambda: run_probe(order)

    def fork_exec(self, order: ExecOrder) -> None:
        if self.fork(order.label):
            from scalewise.watch.child_init import become_program

            become_program(order)

    def fork_branch(self, descriptor: int) -> Job | None:
        """Forks a server like this one, with a connection of its own: what it starts lives and ends apart."""
        if not self.fork("branch"):
            os.close(descriptor)
            return None
        branch = _Server(descriptor)
        branch.say({"event": "ready", "pid": os.getpid()})
        return branch.loop() or (lambda: os._exit(0))

    def fork_store(self) -> None:
        """Tells the parent the port of a new key-value store; None if there is none."""
        _, port = self.fork_reporting("store", host_store)
        self.say({"event": "store", "port": int(port) if port else None})

    def fork_view(self, order: ViewOrder) -> None:
        """Tells the parent which process keeps the view, or why there is none."""
        from scalewise.watch.private_view import hold_view

        pid, told = self.fork_reporting("view", lambda writing: hold_view(order, writing))
        self.say({"event": "view", "pid": pid, **(json.loads(told) if told else {"error": "it said nothing"})})

    def fork_reporting(self, label: str, work: Callable[[int], None]) -> tuple[int, str]:
        """Forks a child that writes one message to the given pipe and goes on; returns its number and the message."""
        reading, writing = os.pipe()
        if self.fork(label):
            os.close(reading)
            work(writing)
        os.close(writing)
        with open(reading, "rb") as pipe:
            said = pipe.read().decode()
        return next((pid for pid, known in reversed(self.labels.items()) if known == label), 0), said

    def send_signal(self, label: str, number: int) -> None:
        for pid, known in self.labels.items():
            if known == label:
                os.kill(pid, number)

    def reap(self) -> bool:
        """Reports every child that has ended; returns False if there is none left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            label = self.labels.pop(pid, None)
            if label is not None:
                ended = {
                    "event": "ended",
                    "label": label,
                    "pid": pid,
                    "code": os.waitstatus_to_exitcode(status),
                }
                self.say({**ended, "at_ns": time.monotonic_ns(), "maxrss_bytes": usage.ru_maxrss * 1024})

    def kill_all(self) -> None:
        """Kills children until none is left; orphans of the dead become children of this process, so this ends all."""
        while self.reap():
            for pid in _children():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.002)


def _children() -> list[int]:
    """The processes whose parent is this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid():
                found.append(int(entry.name))
    return found


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):
        libc.prctl(option, int(value), 0, 0, 0)


WORKS = 0
RAISED = 3


def run_probe(order: ProbeOrder) -> None:
    """Tries a training step in one precision: exits 0 if the step survives, dies if the step makes it die.

    Some CPUs die of instructions that they advertise.
    """
    os.environ.pop("ONEDNN_MAX_CPU_ISA", None)
    if order.isa_cap:
        os.environ["ONEDNN_MAX_CPU_ISA"] = order.isa_cap
    try:
        train_one_step(order.precision)
    except Exception:
        sys.exit(RAISED)
    # The result is known; what the interpreter does at its end is not what is being tried.
    os._exit(WORKS)


def train_one_step(precision: str) -> None:
    """Runs a linear layer forward and backward, large enough for the kernels that real training uses."""
    import torch

    dtype = getattr(torch, precision)
    layer = torch.nn.Linear(128, 128)
    inputs = torch.randn(64, 128)
    with torch.autocast("cpu", dtype, enabled=dtype is not torch.float32):
        outputs = layer(inputs)
    outputs.float().sum().backward()


def host_store(writing: int) -> None:
    """Hosts the ranks' key-value store, as torchrun's agent does, on a port of its own; never returns.

    The parent ends this process with the run.
    """
    try:
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        # The store would listen on every interface; a socket of our own keeps it on this machine.
        listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
        port = listening.getsockname()[1]
        store = TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False, master_listen_fd=listening.detach())
        os.write(writing, str(store.port).encode())
        os.close(writing)
        while True:
            signal.pause()
    finally:
        os._exit(1)
