"""A check is one file in `checks/`: what it looks for in words, and a function that looks."""

import functools
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from scalewise.doctor.case import Case
from scalewise.doctor.finding import Finding, Severity
from scalewise.doctor.replay import Replayed

Group = Literal[
    "accumulation", "precision", "data", "ddp", "hang", "timing", "machine", "model parallel", "model", "gpu"
]
GROUPS: tuple[Group, ...] = (
    "accumulation", "precision", "data", "ddp", "hang", "timing", "machine", "model parallel", "model", "gpu",
)  # fmt: skip


@dataclass(frozen=True)
class Check:
    """The words of a check: the page of checks, --list and --explain are made from them."""

    name: str
    group: Group
    severity: Severity  # of what it usually finds
    detects: str  # one sentence
    why: str  # it is bad
    example: str  # the mistake, a few lines
    fix: str  # the same, mended
    needs: str  # what must have been seen, else it abstains
    silent: str = ""  # what looks like it and is not: when it says nothing on purpose


@dataclass(frozen=True)
class Rule:
    """A check with its functions."""

    check: Check
    examine: Callable[[Case], tuple[Finding, ...]]  # raises Abstain
    # What a replay of the finding's remedy makes of it; None: it was no mistake after all.
    settle: Callable[[Case, Finding, Replayed], Finding | None] | None


@functools.cache
def rules() -> tuple[Rule, ...]:
    """Every check there is, by group and name."""
    from scalewise.doctor import checks

    found = []
    for info in pkgutil.iter_modules(checks.__path__):
        module = importlib.import_module(f"{checks.__name__}.{info.name}")
        found.append(Rule(module.CHECK, module.examine, getattr(module, "settle", None)))
    return tuple(sorted(found, key=lambda rule: (GROUPS.index(rule.check.group), rule.check.name)))
