"""Lets a warning name the script's line that it would name without the watcher.

Code warns about its caller's line by counting frames: `stacklevel=2` is the caller of the function that warns. A
wrapper of ours between the two would be counted, so the count is raised by the frames of ours that it passes. Torch's
C++ code names the innermost Python frame; if that is a wrapper, the message is corrected before it is shown.
"""

import functools
import os
import sys
import warnings
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from scalewise.watch import bindings

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_BEYOND = 1 << 20  # a level that no stack has: Python then names `sys`


def install(broke: Callable[[str, BaseException], None], bottom: CodeType | None = None) -> None:
    """Wraps the functions that warn.

    `bottom`: the code that runs the script as `__main__`; no frame beneath it would be there without the watcher.
    """
    module: Any = warnings
    original, show = module.warn, module._showwarnmsg

    @functools.wraps(original)
    def warn(*args: Any, **kwargs: Any) -> None:
        try:
            args, kwargs = _with_level(sys._getframe(1), bottom, args, kwargs)
        except Exception as error:
            broke("warnings", error)
        original(*args, **kwargs)

    @functools.wraps(show)
    def _showwarnmsg(message: Any) -> Any:
        try:
            if message.filename.startswith(_HERE):
                frame = _outside(sys._getframe(1), bottom)
                if frame is not None:
                    message.filename, message.lineno = frame.f_code.co_filename, frame.f_lineno
        except Exception as error:
            broke("warnings", error)
        return show(message)

    bindings.put([(original, warn)])  # also where it was imported by its name
    module._showwarnmsg = _showwarnmsg


def _with_level(
    caller: FrameType, bottom: CodeType | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with a level that, counted from the wrapper, points to the same frame as without us."""
    given = kwargs.get("stacklevel", args[2] if len(args) > 2 else 1)
    passed_over = tuple(kwargs.get("skip_file_prefixes", ()))
    if not isinstance(given, int):
        return args, kwargs  # the original complains
    level = _level(caller, max(2 if passed_over else 1, given), passed_over, bottom)
    if len(args) > 2:
        return (*args[:2], level, *args[3:]), kwargs
    return args, {**kwargs, "stacklevel": level}


def _level(caller: FrameType, given: int, passed_over: tuple[str, ...], bottom: CodeType | None) -> int:
    frame: FrameType | None = caller
    level, left = 2, given - 1  # 2: the caller of `warn`, as the wrapper sees it
    while left:
        frame = frame.f_back if frame is not None else None
        if frame is None or frame.f_code is bottom:
            return _BEYOND
        file = frame.f_code.co_filename
        if ("importlib" in file and "_bootstrap" in file) or file.startswith(passed_over):
            continue  # Python does not count these
        level += 1
        left -= not file.startswith(_HERE)
    return level


def _outside(frame: FrameType | None, bottom: CodeType | None) -> FrameType | None:
    """The innermost frame that is neither ours nor the warnings module's."""
    while frame is not None and frame.f_code is not bottom:
        file = frame.f_code.co_filename
        if not file.startswith(_HERE) and file != warnings.__file__:
            return frame
        frame = frame.f_back
    return None
