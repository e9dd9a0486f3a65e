"""Notes what the script writes to files by `torch.save` or safetensors, and where.

A distributed checkpoint is written by all ranks on purpose, each its own files; `torch.save` sees those one by one.
"""

import functools
import os
import sys
from typing import Any

import torch

from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.imports import after_import


def install(notebook: Notebook) -> None:
    """Wraps `torch.save` now, and safetensors when the script imports it."""
    torch.save = torch.serialization.save = _noted(notebook, torch.save, "f")

    def see_safetensors() -> None:
        module: Any = sys.modules["safetensors.torch"]
        module.save_file = _noted(notebook, module.save_file, "filename")

    after_import("safetensors.torch", see_safetensors)


def _noted(notebook: Notebook, original: Any, keyword: str) -> Any:
    @functools.wraps(original)
    def save(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        try:
            if notebook.on:
                path = _path(args[1] if len(args) > 1 else kwargs.get(keyword))
                notebook.note("save", path, os.path.getsize(path) if path else 0)
        except Exception as error:
            notebook.broke("save", error)
        return result

    return save


def _path(target: Any) -> str:
    """The real path of a file that was given by name or opened by name; empty for anything else."""
    named = target if isinstance(target, (str, os.PathLike)) else getattr(target, "name", None)
    if not isinstance(named, (str, os.PathLike)):
        return ""
    path = os.path.realpath(named)
    return path if os.path.isfile(path) else ""
