"""Finds the section files of a suite of the course: every module in its folder that has `build`."""

import importlib
import pkgutil
from collections.abc import Sequence
from pathlib import Path

from scalewise.analysis.evidence import Evidence
from scalewise.course import closing_section, predictions
from scalewise.course.predictions import Prediction
from scalewise.report.build_document import SuitePages
from scalewise.report.document import Section

_HERE = Path(__file__).parent


def course_suites() -> tuple[str, ...]:
    """Returns the names of the suites that have a folder here."""
    return tuple(sorted(file.parent.name for file in _HERE.glob("*/suite.toml")))


def pages_of(suite: str) -> SuitePages:
    """Returns the suite's section files with the closing one, page limit and summary; nothing without a folder."""
    if not (_HERE / suite / "suite.toml").is_file():
        return SuitePages()
    package = importlib.import_module(f"scalewise.course.{suite}")
    names = sorted(one.name for one in pkgutil.iter_modules(package.__path__))
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    pages = tuple(module for module in modules if hasattr(module, "build"))
    return SuitePages(
        (*pages, closing_section), package.MOST_PAGES, getattr(package, "summary", None), _what_was_expected
    )


def predictions_of(suite: str) -> tuple[Prediction, ...]:
    """Returns the numbers to guess before measuring; empty if the suite has none."""
    if not (_HERE / suite / "predictions.py").is_file():
        return ()
    found: tuple[Prediction, ...] = importlib.import_module(f"scalewise.course.{suite}.predictions").PREDICTIONS
    return found


def _what_was_expected(evidence: Evidence, sections: Sequence[Section]) -> Section | None:
    loaded = evidence.loaded
    return predictions.section(predictions_of(loaded.name), predictions.kept(loaded.path / predictions.FILE), sections)
