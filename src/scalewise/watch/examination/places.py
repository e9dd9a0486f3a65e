"""Finds the line of the script that asked for what torch is doing now; each line is described once and then a number.

The user's own code is the script itself, wherever it lies, and every file that belongs to no interpreter and no
installed package: neither the standard library, nor a `site-packages` folder, nor scalewise.
"""

import linecache
import os
import site
import sys
import sysconfig
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, TracebackType

from scalewise.records.examination import PlaceRow
from scalewise.records.notes import NOWHERE

MOST_LETTERS = 200  # of a line of the script
_PACKAGE_FOLDERS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def _folders(*names: str) -> tuple[str, ...]:
    return tuple({os.path.join(os.path.realpath(name), "") for name in names})


_OWN = _folders(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
_LIBRARIES = _folders(
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")), *site.getsitepackages()
)


class Places:
    """The numbers of the lines seen so far."""

    def __init__(self, tell: Callable[[object], None]) -> None:
        self._tell = tell
        # By identity: equal functions of two files have equal code objects, and hashing one reads all of its bytecode.
        self._numbers: dict[tuple[int, int], int] = {}
        self._users: dict[int, bool] = {}
        self._kept: list[CodeType] = []  # keeps the objects alive, so that no identity is used again

    def here(self) -> int:
        """The innermost line of the script on the stack; NOWHERE if the script is not on it."""
        frame: FrameType | None = sys._getframe(1)
        users = self._users
        while frame is not None:
            code = frame.f_code
            known = users.get(id(code))
            if known or (known is None and self.of_user(code)):
                return self.number(code, frame.f_lineno)
            frame = frame.f_back
        return NOWHERE

    def caller(self, depth: int) -> int:
        """The line of the frame that many calls up; NOWHERE if that is not the user's code."""
        frame = sys._getframe(depth + 1)
        return self.number(frame.f_code, frame.f_lineno) if self.of_user(frame.f_code) else NOWHERE

    def on_the_way(self, trace: TracebackType | None) -> tuple[int, ...]:
        """The lines of the script in a traceback, innermost first."""
        lines = [(step.tb_frame.f_code, step.tb_lineno) for step in _steps(trace)]
        return tuple(self.number(code, line) for code, line in reversed(lines) if self.of_user(code))

    def of_user(self, code: CodeType) -> bool:
        """Returns whether the code belongs to the script or a module of the user's own, not to a library."""
        known = self._users.get(id(code))
        if known is None:
            known = self._users[id(code)] = is_users_file(code.co_filename)
            self._kept.append(code)
        return known

    def number(self, code: CodeType, line: int | None) -> int:
        """The number of this line, which is described when it is new."""
        line = line or code.co_firstlineno  # a frame between two lines has none
        known = self._numbers.get((id(code), line))
        if known is not None:
            return known
        number = self._numbers[id(code), line] = len(self._numbers)
        self._kept.append(code)
        text = linecache.getline(code.co_filename, line).strip()[:MOST_LETTERS]
        self._tell(PlaceRow(number, _located(os.path.abspath, code.co_filename), line, code.co_name, text))
        return number


def is_users_file(file: str) -> bool:
    """Returns whether a file, named as its code names it, is the user's own."""
    if file.startswith("<"):  # made at run time: whoever made it is further up the stack
        return False
    path = _located(os.path.realpath, file)
    # The file that `__main__` was read from is the script even if it is part of an installed package.
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if main is not None and path == _located(os.path.realpath, main):
        return True
    return not path.startswith((*_OWN, *_LIBRARIES)) and not any(folder in path for folder in _PACKAGE_FOLDERS)


def _located(find: Callable[[str], str], file: str) -> str:
    """The absolute path of a file; its name as it is if the working folder has been removed."""
    try:
        return find(file)
    except OSError:
        return file


def _steps(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next
