"""Applies the fixes of findings from outside: one file per remedy, by its name, installed after all other hooks.

A remedy is the outermost wrapper of what it changes, so that the watcher and the doctor's notes see the script as they
would see the mended one. Unlike every other hook it changes what the script computes, and only a replay has one. Each
counts how often it took effect; one that cannot be installed, or breaks, is a trouble of that run, which says so.
"""

import importlib
import pkgutil
from collections.abc import Sequence
from typing import Any

from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from scalewise.records.examination import RemedyRow
from scalewise.records.spec import Remedy
from scalewise.watch.recorder import Recorder


class UnknownRemedy(LookupError):
    """The error that there is no remedy of that name."""


def install(recorder: Recorder, remedies: Sequence[Remedy]) -> None:
    """Hooks the remedies into torch; what fails is noted as `remedy NAME`."""
    recorder.may_rest = False
    known = {info.name for info in pkgutil.iter_modules(__path__)}
    for remedy in remedies:
        try:
            if remedy.name not in known:
                raise UnknownRemedy(f"there is no such remedy among {', '.join(sorted(known))}")
            module = importlib.import_module(f"{__name__}.{remedy.name}")
            module.install(recorder, remedy.settings)
        except Exception as error:
            recorder.broke(f"remedy {remedy.name}", error)
    _tell_now_and_then(recorder, [remedy.name for remedy in remedies])


def _tell_now_and_then(recorder: Recorder, names: Sequence[str]) -> None:
    """Writes how often each took effect after steps 1, 2, 4, ..., as a run that is killed has no last row."""
    steps = 0

    def after(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        nonlocal steps
        steps += 1
        if recorder.on and steps & (steps - 1) == 0:
            try:
                for name in names:
                    recorder.journal.row(RemedyRow(name, recorder.applied.get(f"remedy:{name}", 0)))
            except Exception as error:
                recorder.broke("counting remedies", error)

    register_optimizer_step_post_hook(after)
