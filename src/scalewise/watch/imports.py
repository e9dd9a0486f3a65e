"""Calls a function right after a module has been imported for the first time, before its importer goes on."""

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def after_import(name: str, call: Callable[[], None]) -> None:
    """Calls a function at once if the module is imported already, else when it has been imported."""
    if name in sys.modules:
        call()
    else:
        sys.meta_path.insert(0, _Finder(name, call))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, call: Callable[[], None]) -> None:
        self.name = name
        self.call = call

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            _call_after_exec(spec.loader, self.call)
        return spec


def _call_after_exec(loader: Any, call: Callable[[], None]) -> None:
    original = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        original(module)
        call()

    loader.exec_module = exec_module
