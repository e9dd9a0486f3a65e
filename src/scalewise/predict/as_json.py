"""Writes an answer and its conclusions as JSON: everything that people are shown, and no tape."""

from typing import Any

from scalewise.analysis.summary import to_json
from scalewise.predict.answer import AtRanks, RehearsalAnswer
from scalewise.predict.conclusion import Conclusions
from scalewise.predict.prediction import LEVEL

SCHEMA = 1


def rehearsal_json(answer: RehearsalAnswer, found: Conclusions) -> dict[str, Any]:
    """An answer as JSON values in seconds, bytes and shares; each interval says its level, one for all of them."""
    told: dict[str, Any] = to_json(
        {
            "schema": SCHEMA,
            "level": LEVEL,
            "script": answer.script,
            "args": answer.args,
            "device": answer.device,
            "link": answer.link,
            "sharing": answer.sharing,
            "spread": answer.spread,
            "folder": answer.folder,
            "at": [_step(at) for at in answer.at],
            "checks": [{"ratio": one.ratio, "inside": one.inside, **to_json(one)} for one in answer.checks],
            "refused": answer.refused,
            "warnings": answer.warnings,
            "files": answer.files,
            **{
                field: getattr(found, field)
                for field in ("scaling", "curve", "thresholds", "changes", "memory", "costs")
            },
            "guesses": found.guesses,
        }
    )
    return told


def _step(at: AtRanks) -> dict[str, Any]:
    """The parts of the step of one number of ranks."""
    line, tape = at.predicted.timeline, at.rehearsal.typical
    return {
        "ranks": at.ranks,
        "predicted": at.predicted.step,
        "measured": at.measured,
        "samples": at.predicted.samples,
        "bound": at.predicted.bound,
        "compute_seconds": line.compute_seconds,
        "message_seconds": line.message_seconds,
        "exposed_seconds": line.exposed_seconds,
        "slowed_seconds": line.slowed_seconds,
        "hidden_seconds": line.hidden_seconds,
        "messages": len(tape.messages) / tape.steps,
        "message_bytes": sum(one.size_bytes for one in tape.messages) / tape.steps,
        "peak_bytes": at.predicted.peak_bytes,
        "company": at.rehearsal.company,
    }
