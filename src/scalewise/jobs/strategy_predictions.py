"""Predicts every strategy at numbers of ranks that are not here: each is rehearsed, and its messages laid on a link."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scalewise.agreement.strategy_table import PredictedRow
from scalewise.jobs.failure_messages import refused
from scalewise.jobs.machine_probes import known_link
from scalewise.jobs.measure import Here
from scalewise.jobs.rehearse import RehearsalStage
from scalewise.jobs.rehearse_request import RehearseRequest
from scalewise.jobs.reporter import Reporter
from scalewise.jobs.requests import ScriptRequest
from scalewise.predict.answer import Refused
from scalewise.predict.link import Link
from scalewise.predict.links import AskedLink, Links
from scalewise.predict.prediction import predict
from scalewise.predict.rehearsed import RehearsedRank, rehearsed
from scalewise.predict.self_check import spread_over
from scalewise.records.examination import AbstainedRow
from scalewise.records.load import Run
from scalewise.records.spec import Change
from scalewise.units import without_stop


@dataclass(frozen=True)
class PredictionRequest:
    """The numbers of ranks, the link and the memory of a prediction of strategies."""

    ranks: tuple[int, ...]
    link: Link | None = None
    measured_asked: bool = False
    per_node: int | None = None
    memory_bytes: float | None = None


def predicted_rows(
    asked: PredictionRequest,
    script: ScriptRequest,
    samples: float | None,
    arms: Sequence[tuple[str, str, tuple[Change, ...]]],
    reporter: Reporter,
    here: Here,
) -> tuple[PredictedRow, ...]:
    """A row for each strategy and number of ranks; strategies are given by name, change in words, and changes.

    `samples`: in a step of one rank, which all ranks together have.
    """
    request = RehearseRequest(
        **script.same_script(),
        ranks=asked.ranks,
        link=asked.link,
        measured_asked=asked.measured_asked,
        per_node=asked.per_node,
        memory_bytes=asked.memory_bytes,
        check=False,
        advice=False,
    )
    stage = RehearsalStage(request, reporter, here)
    needed = asked.link is None or stage.device == "cpu"
    probe = known_link(here, stage.seats, reporter) if needed and stage.seats.counts else None
    link = AskedLink(asked.link, asked.measured_asked, asked.per_node, max(asked.ranks))
    found: list[PredictedRow] = []
    for name, text, changes in arms:
        runs = {ranks: stage.rehearse(ranks, name=f"-{_slug(text)}", changes=changes) for ranks in asked.ranks}
        results = {ranks: rehearsed(run) for ranks, run in runs.items()}
        ready = {ranks: one for ranks, one in results.items() if isinstance(one, RehearsedRank)}
        links = Links(link, stage.seats, probe, ready)
        for ranks, run in runs.items():
            why = _why_not(run, results[ranks]) or _no_link(links, ranks)
            row = PredictedRow(name, text, ranks, why)
            found.append(row if why else _predicted(row, ready, links, asked, samples))
    return tuple(found)


def _slug(text: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in text)


def _why_not(run: Run, result: object) -> str:
    abstained = [row.reason for rank in run.ranks for row in rank.examination if isinstance(row, AbstainedRow)]
    if abstained:
        return abstained[0]
    problem = refused(run, result)  # type: ignore[arg-type]
    return without_stop(problem.reason) if problem is not None else ""


def _no_link(links: Links, ranks: int) -> str:
    found = links.asked(ranks)
    return without_stop(found.reason) if isinstance(found, Refused) else ""


def _predicted(
    row: PredictedRow, ready: dict[int, RehearsedRank], links: Links, asked: PredictionRequest, samples: float | None
) -> PredictedRow:
    one, link = ready[row.ranks], links.asked(row.ranks)
    assert isinstance(link, Link)
    sharing = links.sharing(row.ranks)
    made = predict(one, link, sharing, spread_over(link, tuple(ready.values()), (), one, sharing))
    rate = made.step.through(lambda seconds: samples / seconds, positive=True) if samples else None
    fits = None
    if asked.memory_bytes is not None and made.peak_bytes is not None:
        fits = made.peak_bytes <= asked.memory_bytes
    guesses = (*made.guesses, *(link.guesses if link.origin != "measured" else ()), *_remarks(one))
    return PredictedRow(
        row.name, row.change, row.ranks, "", made.step, rate, str(made.bound), made.peak_bytes, fits,
        tuple(dict.fromkeys(guesses)),
    )  # fmt: skip


def _remarks(one: RehearsedRank) -> Iterator[str]:
    for row in one.unrehearsed:
        yield f"that {row.what} needs no time: it cannot be rehearsed ({row.instead})"
