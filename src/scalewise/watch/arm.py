"""Starts the watcher in a rank: reads the run's spec, sets up what the rank uses (`seat`), and hooks into torch."""

import atexit
import contextlib
import functools
import importlib
import os
from pathlib import Path
from types import CodeType

from scalewise.records.codec import read_json, read_json_or_none
from scalewise.records.events import ARMED
from scalewise.records.folder import RunFolder
from scalewise.records.pulse import SLOTS, open_pulse
from scalewise.records.spec import RunSpec
from scalewise.records.wrapped import removable_in
from scalewise.watch import crash, hidden, moved_folders, process_setup, warned_lines
from scalewise.watch.imports import after_import
from scalewise.watch.journal import Journal
from scalewise.watch.recorder import Recorder
from scalewise.watch.step_interleave import Ring


def arm_from_environment(inject_folder: str) -> None:
    """Starts the watcher in a rank that has a new interpreter; leaves torchrun's own agent process alone."""
    spec_path, out = Path(os.environ[hidden.SPEC]), Path(os.environ[hidden.OUT])
    if "LOCAL_RANK" not in os.environ and _needs_local_rank(spec_path):
        return
    hidden.hide_from_script(inject_folder)
    arm_rank(spec_path, out)


def arm_rank(spec_path: Path, out: Path, launched: bool = False, runs_script: CodeType | None = None) -> None:
    """Starts the watcher in this rank. Never raises: the script runs in any case, and the report says what is missing.

    A rank that the fork server itself has launched takes its run's turns; processes that a script starts do not. Its
    script is run by a function of ours, `runs_script`; elsewhere Python itself runs it.
    """
    folder = RunFolder(out)
    journal = Journal(folder, _number("RANK"))
    try:
        spec = read_json(spec_path, RunSpec)
        # A plain python process is rank 0 whatever variables a cluster's shell may have left it.
        rank, local_rank = (0, 0) if spec.mode == "python" else (_number("RANK"), _number("LOCAL_RANK"))
        if spec.rehearsed is not None:
            rank = local_rank  # it stands for another, and is known by its own number
        process_setup.pin_and_register(spec, folder, rank, local_rank)
        recorder = Recorder(journal, _pulse(folder, spec, rank), rank, spec.changes)
        recorder.spec = spec
        recorder.may_rest = recorder.may_rest and spec.world_size == 1 and not (spec.inspected or spec.examined)
        if spec.turns is not None and launched:
            recorder.may_rest = False  # the others wait for every single step
            recorder.ring = Ring(folder, spec, spec.turns, local_rank)
        crash.keep_tracebacks_clean(recorder, removable_in(spec))
        warned_lines.install(recorder.broke, runs_script)
        if spec.folder_use == "private":
            moved_folders.install()
        after_import("torch", lambda: _hook_torch(recorder, spec, folder, local_rank))
    except Exception as error:
        journal.trouble("arming", error)


def _number(variable: str) -> int:
    text = os.environ.get(variable, "0")
    return int(text) if text.isdecimal() else 0


def _needs_local_rank(spec_path: Path) -> bool:
    spec = read_json_or_none(spec_path, RunSpec)
    return spec is not None and spec.mode == "torchrun"


def _pulse(folder: RunFolder, spec: RunSpec, rank: int) -> memoryview:
    """The rank's signs of life; a private scratch area if there is no file or no room for this rank in it."""
    try:
        pulse = open_pulse(folder.pulses_on(spec.nodes.node_rank if spec.nodes else None), rank)
        if len(pulse) == SLOTS:
            return pulse
    except (OSError, ValueError, TypeError):  # TypeError: a size that is no multiple of an integer's
        pass
    return memoryview(bytearray(SLOTS * 8)).cast("q")


def _hook_torch(recorder: Recorder, spec: RunSpec, folder: RunFolder, local_rank: int) -> None:
    try:
        from scalewise.watch import exit_workarounds, hooks

        process_setup.set_threads(spec)
        exit_workarounds.keep_groups_until_exit()
        if spec.on_cpu or spec.stand_ins:
            devices = spec.devices if spec.stand_ins else 0
            _add(
                recorder,
                "standing in for devices" if devices else "redirecting to the CPU",
                "redirect",
                devices,
                spec.devices,
            )
        if spec.rehearsed is not None:
            from scalewise.watch import rehearsal  # without its group the script would wait for ranks that never come

            rehearsal.install(recorder, spec.rehearsed, local_rank)
        _change(recorder, spec, before_hooks=True)
        hooks.install(recorder, local_rank, spec.without_hooks)
        atexit.register(_finish, recorder)
        if spec.inspected and "inspection/inspector" not in spec.without_hooks:
            _add(recorder, "inspecting", "inspection", recorder, folder)
        if spec.examined:
            _add(recorder, "examining", "examination", recorder, folder, spec.without_hooks)
        if spec.shows_gradients and "gradient_rows" not in spec.without_hooks:
            _add(recorder, "showing gradients", "gradient_rows", recorder)
        if spec.compared:
            _add(recorder, "comparing", "parity", recorder, folder, spec.compared)
        _change(recorder, spec, before_hooks=False)  # last of all, so that they lie around everything that watches
        os.register_at_fork(after_in_child=functools.partial(_leave, recorder))
        recorder.show_life(ARMED)
    except Exception as error:
        recorder.journal.trouble("hooking torch", error)


def _change(recorder: Recorder, spec: RunSpec, before_hooks: bool) -> None:
    if spec.changes:
        from scalewise.watch import changes

        changes.install(recorder, spec.changes, before_hooks)


def _add(recorder: Recorder, where: str, part: str, *given: object) -> None:
    """Installs a part of the watcher that the run can do without; it is imported only here."""
    try:
        importlib.import_module(f"scalewise.watch.{part}").install(*given)
    except Exception as error:
        recorder.journal.trouble(where, error)


def _leave(recorder: Recorder) -> None:
    """Switches the watcher off in a forked child.

    Errors are dropped: Python would print what is raised here, and the file to note it in is the parent's.
    """
    recorder.on = False
    with contextlib.suppress(Exception):
        recorder.leave()


def _finish(recorder: Recorder) -> None:
    try:
        recorder.finish()
    except Exception as error:
        recorder.journal.trouble("finishing", error)
