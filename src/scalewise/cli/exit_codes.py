"""Finds how a verb ends: done, a bad request, failed, done and in doubt, or interrupted."""

from collections.abc import Sequence
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


def interrupted(words: Sequence[str]) -> str:
    """The message for an interruption; only measurements and the course continue where they stopped."""
    continues = bool({"run", "course"} & set(words[:1]))
    return f"interrupted; the same command {'continues' if continues else 'begins anew'}\n"
