"""Lets a script rename a folder in a private view: an overlay refuses it if the folder was there before the run.

The kernel answers as it does between two disks (EXDEV). The folder is then copied under its new name and removed under
the old one, which is what the script finds after a rename. If the two names really lie on different disks, the error
stays.
"""

import errno
import functools
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

_MOUNTS = "/proc/self/mountinfo"
_OURS = "lowerdir=/proc/self/fd/"  # as `watch.private_view` mounts them


def install() -> None:
    """Wraps the two functions that `Path.rename`, `shutil.move` and `os.renames` call."""
    for name in ("rename", "replace"):
        setattr(os, name, _watched(getattr(os, name)))


def _watched(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def rename(*args: Any, **kwargs: Any) -> None:
        try:
            original(*args, **kwargs)
        except OSError as error:
            if error.errno != errno.EXDEV or any(kwargs.get(one) is not None for one in ("src_dir_fd", "dst_dir_fd")):
                raise
            old, new = (os.fsdecode(one) for one in (error.filename, error.filename2))
            if not os.path.isdir(old) or os.path.islink(old) or not _in_one_view(old, new):
                raise
            _move(original, old, new, error)

    return rename


def _in_one_view(old: str, new: str) -> bool:
    views = {_view_of(old), _view_of(new)}
    return len(views) == 1 and None not in views


def _view_of(path: str) -> str | None:
    """The private view that holds the name; None if it lies in none."""
    parent = os.path.dirname(os.path.abspath(path.rstrip("/")))
    real, best, ours = os.path.realpath(parent), "", False
    with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields = line.split()
            place = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4])
            if len(place) >= len(best) and f"{real}/".startswith(f"{place.rstrip('/')}/"):
                best, ours = place, _OURS in line
    return best if ours else None


def _move(rename: Callable[..., None], old: str, new: str, error: OSError) -> None:
    """Copies the folder beside its new place first, so that it is there whole or not at all."""
    parent = os.path.dirname(os.path.abspath(new.rstrip("/")))
    if os.path.isdir(new):
        try:
            os.rmdir(new)
        except OSError as full:
            raise type(error)(full.errno, full.strerror, error.filename, None, error.filename2) from None
    beside = tempfile.mkdtemp(prefix=".moved-", dir=parent)
    try:
        shutil.copytree(old, os.path.join(beside, "folder"), symlinks=True)
        rename(os.path.join(beside, "folder"), new)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    shutil.rmtree(old)
