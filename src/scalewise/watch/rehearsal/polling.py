"""Notes a rank that asks again and again whether a file is there: it waits for another rank, which does not exist."""

import os
import sys
import time
from typing import Any

from scalewise.records.rehearsal import PolledRow
from scalewise.watch.examination.places import is_users_file
from scalewise.watch.recorder import Recorder

LEAST_TIMES = 10
LEAST_SECONDS = 1.0  # a script that looks for its files in several places is done with it by then


def install(recorder: Recorder) -> None:
    """Wraps `os.stat`, which os.path.exists, pathlib and os.path.isfile all call."""
    stat = os.stat
    asked: dict[str, tuple[int, float]] = {}  # missing files: how often, and since when
    told: set[str] = set()

    def watched(*args: Any, **kwargs: Any) -> Any:
        try:
            return stat(*args, **kwargs)
        except FileNotFoundError:
            path = str(args[0] if args else kwargs.get("path", ""))
            times, since = asked.get(path, (0, time.monotonic()))
            asked[path] = times + 1, since
            if times >= LEAST_TIMES and time.monotonic() - since > LEAST_SECONDS and path not in told:
                told.add(path)
                _tell(recorder, path)
            raise

    for supporting in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        if stat in supporting:
            supporting.add(watched)  # shutil looks there for what `os.stat` can do
    os.stat = watched


def _tell(recorder: Recorder, path: str) -> None:
    try:
        frame = sys._getframe(2)
        while frame.f_back is not None and not is_users_file(frame.f_code.co_filename):
            if "importlib" in frame.f_code.co_filename:
                return  # modules and packages are looked for in every place of sys.path, whether it exists or not
            frame = frame.f_back
        recorder.journal.row(PolledRow(path, frame.f_code.co_filename, frame.f_lineno))
        recorder.journal.flush()
    except Exception as error:
        recorder.broke("noticing a wait for a file", error)
