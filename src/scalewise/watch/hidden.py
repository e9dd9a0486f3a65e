"""Variables that native libraries and child processes see and the script's `os.environ` does not.

A script must find exactly the environment that torchrun gives it, yet a process it spawns must still find the watcher.
Python keeps its own copy of the environment: what is put only into the C environment is inherited by children and read
by getenv(), and is invisible to the script.
"""

import os

SPEC = "SCALEWISE_SPEC"  # path of the run's spec.json
OUT = "SCALEWISE_OUT"  # folder that gets the records
HIDE = "SCALEWISE_HIDE"  # comma-separated names of further variables the script must not see
PYTHONPATH = "PYTHONPATH"


def export(variables: dict[str, str]) -> None:
    """Sets variables in the C environment only."""
    for name, value in variables.items():
        os.putenv(name, value)


def hide_from_script(inject_folder: str) -> None:
    """Takes the watcher's own variables out of `os.environ`, leaving them in the C environment."""
    names = [SPEC, OUT, HIDE, *filter(None, os.environ.get(HIDE, "").split(","))]
    for name in names:
        _forget(name)
    kept = [part for part in os.environ.get(PYTHONPATH, "").split(os.pathsep) if part and part != inject_folder]
    if kept:
        whole = os.environ[PYTHONPATH]
        os.environ[PYTHONPATH] = os.pathsep.join(kept)
        os.putenv(PYTHONPATH, whole)
    else:
        _forget(PYTHONPATH)


def _forget(name: str) -> None:
    """Removes a variable from Python's copy without calling unsetenv, as `del os.environ[name]` would."""
    value = os.environ.pop(name, None)
    if value is not None:
        os.putenv(name, value)
