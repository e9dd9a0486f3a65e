"""Turns a copy of the fork server into what `python script.py` would have started, with no trace of the server."""

import contextlib
import io
import os
import random
import signal
import sys
import types
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import TracebackType
from typing import Any

from scalewise.records.orders import ExecOrder, RankOrder
from scalewise.watch import exit_workarounds, hidden

_OWN_FILES = (__file__, "<string>")


def become_rank(order: RankOrder) -> Callable[[], None]:
    """Sets up the rank's streams, environment, folder, seeds and watcher; running the script is left to the caller."""
    _take_streams(order.stdout, order.stderr)
    _join(order.view)
    _open_text_streams(order.unbuffered)
    os.environ.clear()
    os.environ.update(order.environment)
    hidden.export(order.hidden)
    os.chdir(order.cwd)
    _forget_multiprocessing()
    _draw_seeds()
    _arm(order)
    _show_arguments(order)
    return lambda: run_script(order.script)


def become_program(order: ExecOrder) -> None:
    """Replaces this process by another program; never returns."""
    try:
        _take_streams(order.stdout, order.stderr)
        _join(order.view)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(order.cwd)
        os.execvpe(order.argv[0], order.argv, order.environment)
    except OSError as error:
        os.write(2, f"{order.argv[0]}: {error}\n".encode())
    finally:
        os._exit(127)


def run_script(script: str) -> None:
    """Runs the file as `__main__`; what it raises is shown as Python shows it, without a frame of ours."""
    module = types.ModuleType("__main__")
    module.__dict__.update(
        __file__=script,
        __builtins__=sys.modules["builtins"],
        __loader__=SourceFileLoader("__main__", script),
        __spec__=None,
        __cached__=None,
        __annotations__={},
    )
    sys.modules["__main__"] = module
    try:
        exit_code = _exit_code_of(script, module.__dict__)
    except SystemExit as end:
        exit_workarounds.script_ends(end.code)
        raise
    exit_workarounds.script_ends(exit_code)
    if exit_code:
        sys.exit(exit_code)


def _exit_code_of(script: str, namespace: dict[str, Any]) -> int:
    try:
        source = Path(script).read_bytes()
    except OSError as error:
        reason = f"[Errno {error.errno}] {error.strerror}"
        sys.stderr.write(f"{sys.executable}: can't open file {script!r}: {reason}\n")
        return 2
    try:
        try:
            exec(compile(source, script, "exec", dont_inherit=True), namespace)
        finally:
            _flush_streams()
    except SystemExit:
        raise
    except BaseException as error:
        error.__traceback__ = _without_own_frames(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _flush_streams() -> None:
    """Flushes the streams as Python does at the script's end, before it shows an exception, joins threads or exits."""
    for name in ("stderr", "stdout"):
        with contextlib.suppress(Exception):
            getattr(sys, name).flush()


def _without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename in _OWN_FILES:
        trace = trace.tb_next
    return trace


def _join(view: int) -> None:
    """Joins the private view; without it the script is not run at all, as it could overwrite the user's files."""
    if view:
        try:
            from scalewise.watch.private_view import join_view

            join_view(view)
        except OSError as error:
            os.write(2, f"scalewise: the private view of the working folder cannot be joined: {error}\n".encode())
            os._exit(1)


def _arm(order: RankOrder) -> None:
    try:
        from scalewise.watch.arm import arm_rank

        arm_rank(Path(order.spec), Path(order.out), launched=True, runs_script=_exit_code_of.__code__)
    except Exception as error:
        # The script must run in any case; without a watcher, standard error is the only place left to say so.
        sys.stderr.write(f"scalewise: this process is not watched: {error}\n")


def _take_streams(stdout: str, stderr: str) -> None:
    creating = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    for path, flags, number in (("/dev/null", os.O_RDONLY, 0), (stdout, creating, 1), (stderr, creating, 2)):
        descriptor = os.open(path, flags, 0o644)
        os.dup2(descriptor, number)
        if descriptor != number:
            os.close(descriptor)


def _open_text_streams(unbuffered: bool) -> None:
    """Opens streams over descriptors 0, 1 and 2 as a new interpreter would."""
    stdin = io.TextIOWrapper(open(0, "rb", closefd=False), sys.stdin.encoding, "strict", "\n")  # noqa: SIM115
    outputs = []
    for number, errors in ((1, sys.stdout.errors), (2, "backslashreplace")):
        raw: Any = open(number, "wb", buffering=0 if unbuffered else -1, closefd=False)  # noqa: SIM115
        line_by_line = number == 2
        outputs.append(io.TextIOWrapper(raw, sys.stdout.encoding, errors, "\n", line_by_line, write_through=unbuffered))
    for name, stream, mode in zip(("stdin", "stdout", "stderr"), (stdin, *outputs), "rww", strict=True):
        vars(stream)["mode"] = mode
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _forget_multiprocessing() -> None:
    """Renews what multiprocessing notes on import: the folder, and a key that no two processes may share."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.ORIGINAL_DIR = os.getcwd()  # type: ignore[attr-defined]
        process.current_process().authkey = os.urandom(32)


def _draw_seeds() -> None:
    """Seeds every generator from the system's entropy, as a new interpreter does; a copy must do so again."""
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.seed()


def _show_arguments(order: RankOrder) -> None:
    sys.argv = [order.script, *order.args]
    flags = ["-u"] if order.unbuffered else []
    sys.orig_argv = [sys.executable, *flags, *sys.argv]
    # The server's first entry is the folder that scalewise itself was imported from.
    sys.path[:1] = [] if sys.flags.safe_path else [str(Path(order.script).resolve().parent)]
