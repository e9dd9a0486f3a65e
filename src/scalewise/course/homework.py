"""Finds the homeworks: each is a folder whose package has `HOMEWORK`, with a file with `build` for each question.

Nothing else knows a homework by its name: a new one is a folder with `__init__.py`, `suite.toml` and its questions.
"""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType

from scalewise import course
from scalewise.analysis.evidence import Evidence
from scalewise.course import closing_section, predictions
from scalewise.course.predictions import Prediction
from scalewise.report.build_document import SuitePages
from scalewise.report.document import Answer, Section, Summary, YesOrNo

LAST = 100  # place of a homework that does not say its own
Summarise = Callable[[Evidence, Sequence[Section]], Summary]


@dataclass(frozen=True)
class Homework:
    """The parts of a homework that belong to no single question."""

    place: int = LAST  # among the suites of the course, in the order in which they are run
    most_pages: int | None = None  # the sheet's limit
    summary: Summarise | None = None
    predictions: tuple[Prediction, ...] = ()  # numbers to guess before measuring


Told = str | tuple[YesOrNo, str]  # a verdict; where a question asks for yes or no, that word and the sentence after it


@dataclass(frozen=True)
class Question:
    """One question of a sheet."""

    row: str  # of the sheet: H1.2
    text: str  # as the sheet asks it
    hint: str  # which numbers to use, for a report that leaves the answers to the student

    def answer(
        self,
        verdict: Told,
        number: str = "",
        why: str = "",
        practice: str = "",
        *,
        decided: str = "",
        rests_on: tuple[str, ...] = (),
        shaken_by: tuple[str, ...] = (),
    ) -> Answer:
        """The answer with the question's words and hint."""
        word, sentence = (None, verdict) if isinstance(verdict, str) else verdict
        parts = number, why, practice, decided, rests_on, shaken_by, self.hint
        return Answer(self.row, self.text, sentence, *parts, word=word)

    def without_hint(
        self,
        verdict: Told,
        number: str = "",
        why: str = "",
        practice: str = "",
        *,
        decided: str = "",
        rests_on: tuple[str, ...] = (),
    ) -> Answer:
        """The same without the hint, where there are no such numbers to use."""
        return replace(self.answer(verdict, number, why, practice, decided=decided, rests_on=rests_on), hint="")


def course_suites() -> tuple[str, ...]:
    """Returns the names of the suites that have a folder here, in the order of the course."""
    names = (file.parent.name for place in course.__path__ for file in Path(place).glob("*/suite.toml"))
    return tuple(sorted(names, key=lambda name: (_homework(name).place, name)))


def pages_of(suite: str) -> SuitePages:
    """Returns the homework's files of questions, the closing section, page limit and summary; none for other suites."""
    if suite not in course_suites():
        return SuitePages()
    package, homework = _package(suite), _homework(suite)
    files = [
        importlib.import_module(f"{package.__name__}.{one.name}") for one in pkgutil.iter_modules(package.__path__)
    ]
    questions = tuple(file for file in files if hasattr(file, "build"))
    expected = partial(_what_was_expected, homework)
    return SuitePages((*questions, closing_section), homework.most_pages, homework.summary, expected)


def predictions_of(suite: str) -> tuple[Prediction, ...]:
    """Returns the numbers to guess before measuring; empty if the suite has none."""
    return _homework(suite).predictions if suite in course_suites() else ()


def _package(suite: str) -> ModuleType:
    return importlib.import_module(f"{course.__name__}.{suite}")


def _homework(suite: str) -> Homework:
    found: Homework = _package(suite).HOMEWORK
    return found


def _what_was_expected(homework: Homework, evidence: Evidence, sections: Sequence[Section]) -> Section | None:
    guesses = predictions.kept(evidence.loaded.path / predictions.FILE)
    return predictions.section(homework.predictions, guesses, sections)


def verdicts(*wanted: tuple[str, int, str]) -> Summarise:
    """A summary of these verdicts: (row, which of the row's answers, what it is about).

    The third word is needed since a verdict is not understood without its question. A yes or no is left out.
    """

    def summary(_: Evidence, sections: Sequence[Section]) -> Summary:
        answers = answers_by_row(sections)
        told = [
            f"{row}, {about}: {answers[row][index].sentence}"
            for row, index, about in wanted
            if index < len(answers.get(row, ()))
        ]
        return Summary(tuple(told))

    return summary


def answers_by_row(sections: Sequence[Section]) -> dict[str, list[Answer]]:
    """Returns the answers of a report by the row of the sheet."""
    found: dict[str, list[Answer]] = {}
    for section in sections:
        for block in section.blocks:
            if isinstance(block, Answer):
                found.setdefault(block.row, []).append(block)
    return found
