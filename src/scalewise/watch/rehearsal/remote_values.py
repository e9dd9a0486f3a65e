"""Notes when the script looks at what other ranks would have sent, or at what it computed from that.

A small result of a collective that the script itself called becomes a tensor that passes this mark on to whatever is
computed from it, and reports when its value is taken to the host. There the script may go another way than in a real
run; it may also just print it, which cannot be told apart from outside.

A rank that asks again and again whether a file is there is noted, too: it waits for another rank, which does not exist.
"""

import linecache
import os
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, ClassVar

import torch

from scalewise.records.rehearsal import PolledRow, SteeredRow
from scalewise.watch.examination.places import is_users_file
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import caller, seam, step_hooks

LEAST_TIMES = 10
LEAST_SECONDS = 1.0  # a script that looks for its files in several places is done with it by then
MOST_ELEMENTS = 16  # larger ones are data or gradients
_READS = {"item", "tolist", "numpy", "__bool__", "__float__", "__int__", "__index__", "__format__", "__repr__"}
_READS |= {"equal", "allclose", "__array__", "is_nonzero"}
# Methods of torch that ask for the exact type, and must find the plain one.
_ASK_FOR_TYPE = {"__format__", "__deepcopy__", "__reduce_ex__", "__array__", "__contains__"}
_PLAIN = torch.Tensor


class RemoteTensor(torch.Tensor):
    """A tensor that came from others, or was computed from one that did."""

    tell: ClassVar[Callable[[str, str], None]] = lambda call, kind: None

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Passes the mark on to the result, and reports reads."""
        kind = _kind_among(args)
        name = getattr(func, "__name__", "")
        if name in _READS:
            RemoteTensor.tell(name, kind)
        if name in _ASK_FOR_TYPE:
            args = tuple(_plain(one) if type(one) is RemoteTensor else one for one in args)
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        if type(result) is _PLAIN and not any(result is one for one in args):
            _become(result, kind)
        return result

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        """The text of a plain tensor."""
        RemoteTensor.tell("__repr__", self.__dict__.get("kind", ""))
        return repr(_plain(self))


def _kind_among(args: Any) -> str:
    """The kind of the first marked tensor among the arguments, in lists of tensors as well; empty if there is none."""
    inside = (one for value in args if isinstance(value, (tuple, list)) for one in value)
    return next((one.__dict__.get("kind", "") for one in (*args, *inside) if type(one) is RemoteTensor), "")


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.detach().as_subclass(_PLAIN)


def _become(tensor: torch.Tensor, kind: str) -> None:
    if tensor.numel() <= MOST_ELEMENTS and not tensor.requires_grad:
        tensor.__class__ = RemoteTensor
        tensor.__dict__["kind"] = kind


def _unhear(tensor: Any) -> None:
    tensor.__class__ = _PLAIN


class ReadTracker:
    """The marker of messages' results in one process, which reports reads of them."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._told: set[tuple[str, int]] = set()
        self._small: list[torch.Tensor] = []  # parameters whose gradients could be taken for statistics
        RemoteTensor.tell = self._tell
        step_hooks.before(recorder, self._learn, first=True)
        self._learned: set[int] = set()

    def hear(self, kind: str, tensor: torch.Tensor) -> None:
        """Marks the result of a message; only what the script itself asked for is followed."""
        small = type(tensor) is _PLAIN and tensor.numel() <= MOST_ELEMENTS and not tensor.requires_grad
        if small and _asked_by_script() and not any(one.grad is tensor for one in self._small):
            _become(tensor, kind)

    def _learn(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Removes marks from gradients: they are no statistics, even if some were taken for such."""
        if id(optimizer) in self._learned:
            return
        self._learned.add(id(optimizer))
        parameters = [one for group in optimizer.param_groups for one in group["params"]]
        self._small += [one for one in parameters if one.numel() <= MOST_ELEMENTS]
        for one in self._small:
            if type(one.grad) is RemoteTensor:
                _unhear(one.grad)

    def _tell(self, call: str, kind: str) -> None:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and not is_users_file(frame.f_code.co_filename):
            if str(frame.f_globals.get("__name__", "")).startswith("torch.distributed"):
                return  # sizes of objects, and the like
            frame = frame.f_back
        if frame is None:
            return
        file, line = frame.f_code.co_filename, frame.f_lineno
        if (file, line) not in self._told:
            self._told.add((file, line))
            text = linecache.getline(file, line).strip()[:200]
            self._recorder.journal.row(SteeredRow(call.strip("_"), kind, file, line, text))
            self._recorder.journal.flush()  # the read may be why the script ends before its first step


def _asked_by_script() -> bool:
    """Returns whether the script or a library it uses called the collective, not one of torch's own wrappers."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith("scalewise.watch.") and module not in _ON_THE_WAY:
            return not module.startswith("torch.")
        frame = frame.f_back
    return False


_ON_THE_WAY = {"torch.distributed.distributed_c10d", "torch.distributed.c10d_logger", "torch.overrides"}
_ON_THE_WAY |= {"contextlib", "functools"}


# ---- waiting for files


def notice_polling(recorder: Recorder) -> None:
    """Looks at `os.stat`, which os.path.exists, pathlib and os.path.isfile all call."""
    asked: dict[str, tuple[int, float]] = {}  # missing files: how often, and since when
    told: set[str] = set()

    def asks(call: Any, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except FileNotFoundError:
            path = str(args[0] if args else kwargs.get("path", ""))
            times, since = asked.get(path, (0, time.monotonic()))
            asked[path] = times + 1, since
            if times >= LEAST_TIMES and time.monotonic() - since > LEAST_SECONDS and path not in told:
                told.add(path)
                _tell_of_polling(recorder, path)
            raise

    stat = os.stat
    seam(os, "stat").around(asks)
    for supporting in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        if stat in supporting:
            supporting.add(os.stat)  # shutil looks there for what `os.stat` can do


def _tell_of_polling(recorder: Recorder, path: str) -> None:
    try:
        frame = caller()
        while frame.f_back is not None and not is_users_file(frame.f_code.co_filename):
            if "importlib" in frame.f_code.co_filename:
                return  # modules and packages are looked for in every place of sys.path, whether it exists or not
            frame = frame.f_back
        recorder.journal.row(PolledRow(path, frame.f_code.co_filename, frame.f_lineno))
        recorder.journal.flush()
    except Exception as error:
        recorder.broke("noticing a wait for a file", error)
