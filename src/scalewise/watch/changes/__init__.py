"""Changes a script from outside: each change has a file of its name, which declares it and makes it.

A change is the outermost wrapper of what it changes, so that the watcher and the doctor's notes see the script as they
would see it changed by hand; only changes declared `before_hooks` go inside them. Unlike every other hook it changes
what the script computes or how long that takes. Each counts how often it took effect. If one cannot be installed or
breaks, the run records that as a trouble.
"""

import importlib
from collections.abc import Sequence
from typing import Any

from scalewise.records.changes import declared, known_changes
from scalewise.records.examination import AppliedRow
from scalewise.records.spec import Change
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import step_hooks


def install(recorder: Recorder, changes: Sequence[Change], before_hooks: bool = False) -> None:
    """Installs the changes that go inside the watcher's hooks, or all others; notes a failure as `change NAME`."""
    known = known_changes()
    for change in changes:
        if declared(change.name).before_hooks != before_hooks:
            continue
        try:
            if change.name not in known:
                raise LookupError(f"there is no such change among {', '.join(known)}")
            importlib.import_module(f"{__name__}.{change.name}").install(recorder, change.settings)
        except Exception as error:
            recorder.broke(f"change {change.name}", error)
    if not before_hooks and recorder.spec is not None and recorder.spec.enough_steps:
        _tell_now_and_then(recorder, [change.name for change in changes])


class ChangeGuard:
    """The guard of one change: its failure is a trouble of the change, and what it was to show is not believed."""

    def __init__(self, recorder: Recorder, name: str) -> None:
        self._recorder, self._name = recorder, name

    @property
    def on(self) -> bool:
        """Returns whether the process is watched."""
        return self._recorder.on

    def broke(self, where: str, error: Exception) -> None:
        """Notes a failure of the change."""
        self._recorder.broke(f"change {self._name}", error)


def _tell_now_and_then(recorder: Recorder, names: Sequence[str]) -> None:
    """Writes how often each change took effect after steps 1, 2, 4, ..., as a run that is killed has no last row."""
    steps = 0

    def count_changes(optimizer: Any, args: Any, kwargs: Any) -> None:
        nonlocal steps
        steps += 1
        if steps & (steps - 1) == 0:
            for name in names:
                recorder.journal.row(AppliedRow(name, recorder.applied.get(name, 0)))

    step_hooks.after(recorder, count_changes)
