"""A check is one file in `checks/`: a description of what it looks for, and a function that looks for it."""

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
    """The description of a check, from which the page of checks, --list and --explain are made."""

    name: str
    group: Group
    severity: Severity  # the usual severity of its findings
    detects: str  # one sentence
    why: str  # why the mistake is bad
    example: str  # the mistake, a few lines
    fix: str  # the same, mended
    needs: str  # what must have been seen; without it the check abstains
    silent: str = ""  # what looks like the mistake and is not, so that the check is silent on purpose


@dataclass(frozen=True)
class Rule:
    """A check's description together with its functions."""

    check: Check
    examine: Callable[[Case], tuple[Finding, ...]]  # may raise Abstain
    # Returns the finding as a replay of its change leaves it, or None if the replay shows that it is no mistake.
    settle: Callable[[Case, Finding, Replayed], Finding | None] | None


@functools.cache
def rules() -> tuple[Rule, ...]:
    """Returns all checks, sorted by group and name."""
    from scalewise.doctor import checks

    found = []
    for info in pkgutil.iter_modules(checks.__path__):
        module = importlib.import_module(f"{checks.__name__}.{info.name}")
        found.append(Rule(module.CHECK, module.examine, getattr(module, "settle", None)))
    return tuple(sorted(found, key=lambda rule: (GROUPS.index(rule.check.group), rule.check.name)))
