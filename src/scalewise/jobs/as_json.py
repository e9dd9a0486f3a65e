"""Turns the results of verbs into JSON values, by `records/codec.py` and with the figures worked out of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scalewise.analysis.headline import headlines_of
from scalewise.records.codec import encode, json_value

if TYPE_CHECKING:  # each verb has imported what it needs, and not what the others need
    from scalewise.analysis.summary import Analysis
    from scalewise.course.tasks.requirement import Judged, TaskVerdict
    from scalewise.jobs.diagnose import ExaminedScript
    from scalewise.predict.answer import AtRanks, RehearsalAnswer
    from scalewise.predict.cluster_answer import ClusterAnswer, PlacementRow
    from scalewise.predict.cluster_fit import ClusterFit
    from scalewise.predict.conclusion import Conclusions
    from scalewise.predict.probe import LinkProbe
    from scalewise.records.examination import PlaceRow
    from scalewise.records.machine import MachineFacts

REHEARSAL_SCHEMA = 1
CLUSTER_SCHEMA = 1


def machine_json(facts: "MachineFacts", probes: "Sequence[LinkProbe]") -> dict[str, Any]:
    """The facts, and the measured values of each link with the sentences about it."""
    from scalewise.report.documents.machine_document import link_texts

    return encode(facts) | {"links": [{**encode(probe), "in_words": link_texts(probe)} for probe in probes]}


def measurement_json(analysis: "Analysis") -> dict[str, Any]:
    """The analysis, and the answers of each experiment."""
    headlines = {one.name: headlines_of(one.rows) for one in analysis.experiments}
    return {"headlines": headlines, **json_value(analysis)}


def diagnosis_json(examined: "ExaminedScript") -> dict[str, Any]:
    """The diagnosis, and how the script ended."""
    words = "\n".join(examined.words)
    more = {"traceback": words, "exit_code": examined.exit_code, "files": examined.files}
    return encode(examined.diagnosis) | more


def rehearsal_json(answer: "RehearsalAnswer", found: "Conclusions") -> dict[str, Any]:
    """An answer as JSON values in seconds, bytes and shares; each interval says its level, one for all of them."""
    from scalewise.predict.prediction import LEVEL

    told: dict[str, Any] = json_value(
        {
            "schema": REHEARSAL_SCHEMA,
            "level": LEVEL,
            "script": answer.script,
            "args": answer.args,
            "device": answer.device,
            "link": answer.link,
            "sharing": answer.sharing,
            "spread": answer.spread,
            "folder": answer.folder,
            "at": [_step(at) for at in answer.at],
            "checks": [{"ratio": one.ratio, "inside": one.inside, **json_value(one)} for one in answer.checks],
            "refused": answer.refused,
            "warnings": answer.warnings,
            "files": answer.files,
            **{
                field: getattr(found, field)
                for field in ("scaling", "curve", "orders", "thresholds", "changes", "memory", "costs")
            },
            "guesses": found.guesses,
        }
    )
    return told


def _step(at: "AtRanks") -> dict[str, Any]:
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


def verdict_json(verdict: "TaskVerdict") -> dict[str, Any]:
    """A check of a script, requirement by requirement."""
    return {
        "task": verdict.task.name,
        "script": verdict.script,
        "verdict": verdict.sentence(),
        "fulfilled": verdict.count("fulfilled"),
        "not_fulfilled": verdict.count("not fulfilled"),
        "not_seen": verdict.count("not seen"),
        "requirements": list(map(_requirement, verdict.judged)),
        "failure": verdict.failure,
        "last_line": verdict.last_line,
        "where": _place(verdict.where),
        "setting": verdict.setting,
        "folder": verdict.folder,
        "exit_code": verdict.exit_code,
    }


def _requirement(one: "Judged") -> dict[str, Any]:
    return {
        "id": one.requirement.id,
        "asks": one.requirement.asks,
        "state": one.found.state,
        "measured": one.found.measured,
        "where": _place(one.found.where),
        "change": one.found.change,
    }


def _place(where: "PlaceRow | None") -> dict[str, Any] | None:
    return {"file": where.file, "line": where.line, "text": where.text} if where else None


def cluster_json(answer: "ClusterAnswer") -> dict[str, Any]:
    """An answer about a cluster as JSON values in seconds and shares, with the figures of its laws."""
    from scalewise.predict.prediction import LEVEL

    told: dict[str, Any] = json_value(
        {
            "schema": CLUSTER_SCHEMA,
            "level": LEVEL,
            "source": answer.source,
            "clusters": [_laws(fit) for fit in answer.fits],
            "models": [
                {
                    "cluster": one.cluster,
                    "model": one.model,
                    "local_batch": one.local_batch,
                    "alone_seconds": one.alone_seconds,
                    "alone_measured": one.alone_measured,
                    "anchor": list(one.anchor.per_node),
                    "anchor_seconds": one.anchor_seconds,
                    "predicted": [_placed(row) for row in one.rows],
                    "falls": one.falls,
                }
                for one in answer.models
            ],
            "guesses": answer.guesses,
        }
    )
    return told


def _laws(fit: "ClusterFit") -> dict[str, Any]:
    from scalewise.predict.cluster_law import NAMES

    return {
        "cluster": fit.cluster,
        "held_back_rows": fit.held_back,
        "held_back_inside": fit.inside_share if fit.inside_share >= 0 else None,
        "intervals_widened": fit.widened,
        "row_noise_of_computing": fit.noise.computing,
        "row_noise_of_exposed": fit.noise.exposed,
        "laws": {model: {name: law[name] for name in NAMES} for model, law in fit.laws.items()},
    }


def _placed(row: "PlacementRow") -> dict[str, Any]:
    found = row.predicted
    return {
        "placement": list(found.placement.per_node),
        "nodes": found.placement.nodes,
        "gpus": found.placement.gpus,
        "step": found.step,
        "computing_seconds": found.computing_seconds,
        "exposed_seconds": found.exposed_seconds,
        "samples_per_second": found.samples_per_second,
        "efficiency": row.efficiency,
        "more_samples_than_the_row_before": row.quicker,
    }
