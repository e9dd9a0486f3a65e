"""Finds the exit code of a verb: done, a bad request, failed, or done and in doubt."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scalewise.analysis.summary import Analysis
    from scalewise.predict.answer import RehearsalAnswer

DONE, BAD_REQUEST, FAILED, DOUBTFUL = 0, 1, 2, 3
SEVERITY = (DONE, DOUBTFUL, FAILED)


def rehearsal_code(answer: "RehearsalAnswer") -> int:
    """Returns the exit code; missing predictions and failed checks outrank predictions in doubt."""
    if answer.refused or answer.check_failed:
        return FAILED
    return DONE if all(check.inside for check in answer.checks) else DOUBTFUL


def folder_code(folder: Path) -> int:
    """Returns the exit code of what lies in a folder."""
    from scalewise.analysis.summary import summarise
    from scalewise.records.load import load

    return measurement_code(summarise(load(folder)))


def measurement_code(analysis: "Analysis") -> int:
    """Returns the exit code of a measurement."""
    if analysis.failed:
        return FAILED
    return DOUBTFUL if analysis.doubtful else DONE
