"""Which line of the script asked for what torch is doing now; each line is described once and then a number."""

import functools
import linecache
import os
import site
import sys
import sysconfig
from collections.abc import Callable
from types import CodeType, FrameType

from scalewise.records.examination import PlaceRow
from scalewise.records.notes import NOWHERE

MOST_LETTERS = 200  # of a line of the script
_PATHS = sysconfig.get_paths()
_LIBRARIES = tuple(
    {
        os.path.join(os.path.realpath(folder), "")
        for folder in (
            os.path.dirname(os.path.dirname(os.path.dirname(__file__))),  # scalewise itself
            *(_PATHS[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
            *site.getsitepackages(),
        )
    }
)


class Places:
    """The numbers of the lines seen so far."""

    def __init__(self, tell: Callable[[object], None]) -> None:
        self._tell = tell
        self._numbers: dict[tuple[CodeType, int], int] = {}

    def here(self) -> int:
        """The innermost line of the script on the stack; NOWHERE where the script is not on it."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if of_the_user(frame.f_code):
                return self.number(frame.f_code, frame.f_lineno)
            frame = frame.f_back
        return NOWHERE

    def number(self, code: CodeType, line: int) -> int:
        """The number of this line, described when it is new."""
        known = self._numbers.get((code, line))
        if known is not None:
            return known
        number = self._numbers[code, line] = len(self._numbers)
        text = linecache.getline(code.co_filename, line).strip()[:MOST_LETTERS]
        self._tell(PlaceRow(number, os.path.abspath(code.co_filename), line, code.co_name, text))
        return number


@functools.cache
def of_the_user(code: CodeType) -> bool:
    """Whether the code is the script's or of a module of the user's own, not of a library."""
    file = code.co_filename
    return not file.startswith("<") and not os.path.realpath(file).startswith(_LIBRARIES)
