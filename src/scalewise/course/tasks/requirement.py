"""Requirements of the course's sheets, what was seen of a script, and the verdict that follows from both."""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from scalewise.analysis.inspected_run import Inspection
from scalewise.doctor.case import Abstain, Case
from scalewise.records.examination import PlaceRow
from scalewise.records.load import Run

State = Literal["fulfilled", "not fulfilled", "not seen"]
FAILED = 2  # exit code: a requirement is not fulfilled, or the script failed


@dataclass(frozen=True)
class Found:
    """The result for one requirement: the state, what was measured, the line, and what to change."""

    state: State
    measured: str
    where: PlaceRow | None = None
    change: str = ""  # what to change, if it is not fulfilled


@dataclass(frozen=True)
class Seen:
    """The observations of a script; `shown` has one inspected run for each number of GPUs shown to it."""

    case: Case
    text: str  # the script's text
    reference: Run | None = None  # the course's Code 1 with the constants that were seen
    no_reference: str = ""  # why there is no reference
    shown: Mapping[int, Inspection | None] = field(default_factory=dict)
    printed: tuple[int, ...] = ()  # lines on stdout, rank by rank
    cut_short: bool = False  # the run ended at its limit, so more steps may have followed

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree of the script."""
        return ast.parse(self.text)

    def place(self, node: ast.expr) -> PlaceRow:
        """Returns the line of a node of the script's syntax tree."""
        line = self.text.splitlines()[node.lineno - 1].strip()
        return PlaceRow(-1, self.case.run.spec.script, node.lineno, "", line)


@dataclass(frozen=True)
class Requirement:
    """One thing that a sheet asks of a script, and how it is checked."""

    id: str  # the row of the sheet, such as H2.1
    asks: str  # in the sheet's words
    look: Callable[[Seen], Found]


@dataclass(frozen=True)
class Task:
    """A task of the sheets: what it asks of a script, and how the script is run to check it."""

    name: str
    title: str  # for the middle of a sentence: `homework 2 (H2.1)`
    script: str  # the course's own script, without its file ending
    requirements: tuple[Requirement, ...]
    plain: bool = False  # one process, without torchrun
    shown: tuple[int, ...] = ()  # numbers of GPUs that it is shown, one run each; empty: the existing ones
    compared: bool = False  # its losses are compared with those of Code 1


@dataclass(frozen=True)
class Judged:
    """A requirement and what was found of it."""

    requirement: Requirement
    found: Found


@dataclass(frozen=True)
class TaskVerdict:
    """The complete result of the check of a script."""

    task: Task
    script: str
    judged: tuple[Judged, ...]
    failure: str = ""  # one sentence, where the script did not get so far that it can be judged
    last_line: str = ""  # of what the script itself said
    where: PlaceRow | None = None  # the line of the script at which it failed or stood
    setting: str = ""  # ranks, steps and device
    folder: str = ""

    def count(self, state: State) -> int:
        """Returns how many requirements are in that state."""
        return sum(one.found.state == state for one in self.judged)

    @property
    def exit_code(self) -> int:
        """The exit code: 0 if no requirement is broken; what was not seen is reported, but does not count."""
        return FAILED if self.failure or self.count("not fulfilled") else 0

    def sentence(self) -> str:
        """Returns the verdict in one sentence."""
        if self.failure:
            return self.failure
        whole, kept = len(self.judged), self.count("fulfilled")
        if kept == whole:
            return f"All {whole} requirements of {self.task.title} are fulfilled."
        rest = [(self.count("not fulfilled"), "not"), (self.count("not seen"), "not seen")]
        words = [f"{count} {'is' if count == 1 else 'are'} {word}" for count, word in rest if count]
        are = "is" if kept == 1 else "are"
        return f"{kept} of {whole} requirements of {self.task.title} {are} fulfilled, {' and '.join(words)}."


def judge_task(task: Task, seen: Seen) -> tuple[Judged, ...]:
    """Judges every requirement of the task; one that cannot be decided is `not seen`, with the reason."""
    return tuple(_judge(task, seen))


def _judge(task: Task, seen: Seen) -> Iterator[Judged]:
    for requirement in task.requirements:
        try:
            found = requirement.look(seen)
        except Abstain as reason:
            found = Found("not seen", str(reason))
        yield Judged(requirement, found)


def decided(right: bool, measured: str, where: PlaceRow | None = None, change: str = "") -> Found:
    """Returns fulfilled or not; what to change is kept only if it is not."""
    return Found("fulfilled" if right else "not fulfilled", measured, where, "" if right else change)
