"""Rehearses a script: learns the link, predicts the step, checks the prediction, and measures one rank."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scalewise.analysis.run_files import read_lines, run_files_of
from scalewise.errors import BadRequest
from scalewise.jobs.failure_messages import (
    left_out,
    loaded,
    made_up,
    refuse_unstartable,
    refused,
    warnings_of,
    why_unmeasured,
)
from scalewise.jobs.machine_probes import known_link
from scalewise.jobs.measure import Here, Where, planned, suite_folder
from scalewise.jobs.rehearse_record import from_record, keep_computing, record_asked
from scalewise.jobs.rehearse_request import RehearseRequest
from scalewise.jobs.reporter import Reporter
from scalewise.launch.campaign import Interrupts, run_campaign
from scalewise.launch.forkserver import Servers
from scalewise.launch.this_machine import machine_facts
from scalewise.plan.python_file import check_is_python
from scalewise.plan.seating import Seating, seating
from scalewise.predict.answer import AtRanks, Base, Checked, MeasuredStep, Refused, RehearsalAnswer
from scalewise.predict.computing_record import ComputingRecord
from scalewise.predict.conclusion import Conclusions, conclusions_from
from scalewise.predict.cost import Training
from scalewise.predict.link import Link
from scalewise.predict.links import AskedLink, Links
from scalewise.predict.prediction import Predicted, Spread, predict
from scalewise.predict.prediction_text import stood_for
from scalewise.predict.rank_differences import differences, work_by_rank
from scalewise.predict.rehearsed import NotRehearsed, RehearsedRank, rehearsed
from scalewise.predict.scaled_batches import scaled_batches
from scalewise.predict.self_check import WrittenPrediction, measured, spread_over
from scalewise.records.codec import write_json
from scalewise.records.folder import SuiteFolder
from scalewise.records.inspection import MemoryPartsRow
from scalewise.records.load import Run, load
from scalewise.records.machine import MachineFacts
from scalewise.records.spec import Change, Device, Rehearsed, RunSpec
from scalewise.units import counted

ENOUGH_STEPS = 40  # enough of them are settled to determine the median step well


class RehearsalStage:
    """The runs of one request's script on this machine."""

    def __init__(self, request: RehearseRequest, reporter: Reporter, here: Here) -> None:
        self.request, self.reporter, self.here = request, reporter, here
        self.device: Device = _device(request, here.facts)
        self.seats: Seating = seating(here.facts, self.device, request.ranks)
        numbers = {1, *self.seats.counts, *(self.company(count) for count in request.ranks)}
        suite = request.suite(tuple(sorted(numbers)))
        suite = replace(suite, name=f"{suite.name}-rehearse")
        plan = planned(suite, reporter, here)
        self._specs = {spec.ranks: spec for spec in plan.runs}
        self.runs: list[Run] = []  # all that were made
        self._left_out: dict[str, str] = {}  # parts of the watcher that have failed in this script
        self.folder: SuiteFolder = suite_folder(suite, plan, here.facts, Where(request.out, again=True))

    def company(self, ranks: int) -> int:
        """Returns how many of these ranks are rehearsed at once: as many as fit."""
        return max(1, min(ranks, self.seats.slots))

    def rehearse(
        self,
        ranks: int,
        *,
        first: int = 0,
        company: int | None = None,
        name: str = "",
        args: tuple[str, ...] = (),
        changes: tuple[Change, ...] = (),
        inspect: bool = False,
    ) -> Run:
        """Rehearses `company` of that many ranks, from rank `first` on; without `company`, as many as fit."""
        spec = self._specs[company or self.company(ranks)]
        told = self.request.per_node or (self.request.link.ranks_per_node if self.request.link else 0)
        per_node = told or min(ranks, 8 if self.device == "cuda" else ranks)
        return self._made(
            replace(
                spec,
                name=f"rehearse{ranks}{name}",
                args=spec.args + args,
                kind=Rehearsed(ranks, first, per_node, inspected=inspect),
                changes=changes,
            )
        )

    def measure(
        self, ranks: int, *, name: str = "", args: tuple[str, ...] = (), changes: tuple[Change, ...] = ()
    ) -> Run:
        """Makes a run with that many real ranks."""
        spec = self._specs[ranks]
        return self._made(replace(spec, name=f"measure{ranks}{name}", args=spec.args + args, changes=changes))

    def _made(self, spec: RunSpec) -> Run:
        spec = replace(spec, enough_steps=ENOUGH_STEPS, without_hooks={**self._left_out, **spec.without_hooks})
        interrupts = Interrupts()
        with self.reporter.runs("rehearse") as progress:
            run_campaign([spec], self.folder, self.here.facts, progress, self.here.servers, interrupts)
        if interrupts.asked:
            raise KeyboardInterrupt
        run = load(self.folder.run(spec.name).path).runs[0]
        self.runs.append(run)
        if run.measured:
            self._left_out = run.spec.without_hooks
        return run

    @property
    def prediction_file(self) -> Path:
        """The file of predictions, which is written before anything is measured."""
        return self.folder.path / "prediction.json"


def _device(request: RehearseRequest, facts: MachineFacts) -> Device:
    if request.device == "auto":
        return "cuda" if facts.gpus else "cpu"
    return request.device


SMALL_BUCKETS = Change("ddp_option", {"bucket_cap_mb": 1e-6})  # one bucket for each gradient
WRAPPER = "DistributedDataParallel"
UNSHARED = "that messages keep none of the record's cores from computing: it does not say how much they do"
NOTHING_CHECKED = "that predictions are as good here as elsewhere: none was checked here"


@dataclass(frozen=True)
class Rehearsals:
    """The rehearsals of all numbers of ranks that were tried."""

    found: dict[int, RehearsedRank]
    runs: dict[int, Run]
    refused: tuple[Refused, ...]
    warnings: tuple[str, ...]
    record: ComputingRecord | None = None  # from which they were taken; None: made here


@dataclass(frozen=True)
class SelfCheck:
    """The result of checking predictions against real ranks."""

    rows: tuple[Checked, ...] = ()
    measured: tuple[MeasuredStep, ...] = ()
    base: Base | None = None
    warnings: tuple[str, ...] = ()
    failed: bool = False  # a run of real ranks failed


def rehearse(request: RehearseRequest, reporter: Reporter) -> RehearsalAnswer:
    """Returns everything that can be said about the numbers of ranks asked for."""
    check_is_python(request.script)
    refuse_unstartable(request.script)
    record = record_asked(request)
    reporter.say("looking at the machine")
    with Servers() as servers:
        stage = RehearsalStage(request, reporter, Here(servers, machine_facts(servers)))
        rehearsals = _rehearsals(stage) if record is None else _recorded(stage, record)
        keep_computing(stage, rehearsals.found, rehearsals.runs)
        links = _links(stage, rehearsals)
        check = _self_check(stage, rehearsals, links)
        answer = _answer(stage, rehearsals, links, check, _other_batches(stage, rehearsals))
        answer = _with_further(stage, rehearsals, answer) if request.advice and record is None else answer
        files = run_files_of(stage.runs)
        return replace(answer, files=files, warnings=(*answer.warnings, *read_lines(files)))


def concluded(answer: RehearsalAnswer, request: RehearseRequest) -> Conclusions:
    """Returns what follows from the answer for the memory, the training and the price of the request."""
    training = Training(steps=request.steps, price_per_gpu_hour=request.price_per_hour)
    return conclusions_from(answer, request.memory_bytes, training, advice=request.advice)


def _rehearsals(stage: RehearsalStage) -> Rehearsals:
    """Rehearses the numbers of ranks asked for and those to be checked; raises only if none asked for succeeds."""
    checked = stage.seats.counts if stage.request.check else ()
    found: dict[int, RehearsedRank] = {}
    runs: dict[int, Run] = {}
    failed: list[Refused] = []
    warnings: list[str] = []
    for ranks in sorted({*stage.request.ranks, *checked}):
        run = runs[ranks] = stage.rehearse(ranks)
        result = rehearsed(run)
        problem = refused(run, result)
        if problem is not None:
            failed.append(problem)
        elif isinstance(result, RehearsedRank):
            found[ranks] = result
            warnings += differences(work_by_rank(run))
    asked = [ranks for ranks in found if ranks in stage.request.ranks]
    if not asked:
        raise _nothing([one for one in failed if one.ranks in stage.request.ranks])
    warnings += _ranks_apart(stage, max(asked), found, runs)
    kept = tuple(one for one in failed if one.ranks in stage.request.ranks)
    warnings += [remark for one in found.values() for remark in one.remarks]
    return Rehearsals(found, runs, kept, (*dict.fromkeys(warnings), *warnings_of(tuple(found.values()))))


def _recorded(stage: RehearsalStage, record: ComputingRecord) -> Rehearsals:
    taken = from_record(stage, record)
    return Rehearsals(taken.found, {}, taken.refused, taken.warnings, record)


def _nothing(failed: Sequence[Refused]) -> BadRequest:
    """The error if nothing can be predicted: each reason once, the script's own output, and what to do."""
    sentences = list(dict.fromkeys(one.reason for one in failed))
    words = [f"    {line}" for line in failed[0].words]
    return BadRequest(" ".join(sentences), "\n".join([*words, failed[0].hint]).strip("\n"))


def _ranks_apart(
    stage: RehearsalStage, ranks: int, found: dict[int, RehearsedRank], runs: dict[int, Run]
) -> Sequence[str]:
    """Compares rank 0 with the last ranks (shorter batch, end of a pipeline); if they differ, with middle ones, too."""
    company = stage.company(ranks)
    if ranks <= company:
        return ()
    said = _compared(stage, ranks, ranks - company, found, runs)
    middle = (ranks - company) // 2
    if said and middle >= company:
        said += _compared(stage, ranks, middle, found, runs)
    return said


def _compared(
    stage: RehearsalStage, ranks: int, first: int, found: dict[int, RehearsedRank], runs: dict[int, Run]
) -> tuple[str, ...]:
    """Tells how the ranks from `first` on differ from rank 0; if they compute longer, the prediction is for them."""
    run = stage.rehearse(ranks, first=first, name=f"-from{first}")
    other = rehearsed(run)
    if isinstance(other, NotRehearsed):
        why = ". ".join(text for text in (other.reason, made_up(run)) if text)
        return (f"{stood_for(run.spec)} could not be rehearsed, as rank 0 could: {why}",)
    said = differences((work_by_rank(runs[ranks])[0], *work_by_rank(run)[-1:]))
    if said and other.typical.compute_seconds > found[ranks].typical.compute_seconds:
        found[ranks] = other
    return said


def _links(stage: RehearsalStage, rehearsals: Rehearsals) -> Links:
    """Returns the links; measures this machine's if needed: to predict over, to check, or because ranks share cores."""
    request = stage.request
    if (record := rehearsals.record) is not None:
        asked = AskedLink(request.link, request.measured_asked, request.per_node, max(request.ranks))
        return Links(asked, Seating(record.device, (), record.cores_per_rank, 0), None, rehearsals.found)
    needed = request.link is None or request.check or stage.device == "cpu"
    probe = None
    if needed and stage.seats.counts:
        probe = known_link(stage.here, stage.seats, stage.reporter)
    asked = AskedLink(request.link, request.measured_asked, request.per_node, max(request.ranks))
    return Links(asked, stage.seats, probe, rehearsals.found)


def _self_check(stage: RehearsalStage, rehearsals: Rehearsals, links: Links) -> SelfCheck:
    """Checks predictions against real ranks; all of them are on disk before the first measurement begins."""
    if not stage.request.check:
        return SelfCheck(base=_base(stage, rehearsals, measure=False))
    warnings: list[str] = []
    predicted: dict[int, Predicted] = {}
    for ranks in stage.seats.counts:
        link = links.measured(ranks)
        if ranks in rehearsals.found and isinstance(link, Link):
            one = rehearsals.found[ranks]
            sharing = links.sharing_here(ranks)
            spread = spread_over(link, tuple(rehearsals.found.values()), (), one, sharing)
            predicted[ranks] = predict(one, link, sharing, spread)
        elif not isinstance(link, Link):
            warnings.append(f"the prediction for {ranks} ranks could not be checked: {link.reason}")
    _write(stage, predicted)
    rows, seen, failed = [], [], False
    for ranks, prediction in predicted.items():
        run = stage.measure(ranks)
        made = measured(run, loop=rehearsals.found[ranks].uneven)
        if made is None:
            failed = failed or not run.measured
            warnings.append(f"the prediction for {ranks} ranks could not be checked: {why_unmeasured(run)}")
        else:
            seen.append(made)
            rows.append(Checked(ranks, prediction.step, made.step))
    return SelfCheck(tuple(rows), tuple(seen), _base(stage, rehearsals, measure=True), tuple(warnings), failed)


def _write(stage: RehearsalStage, predicted: dict[int, Predicted]) -> None:
    steps = [(ranks, one.step) for ranks, one in predicted.items()]
    written = WrittenPrediction(
        written_unix_seconds=time.time(),
        script=str(stage.request.script),
        args=stage.request.args,
        link="measured",
        predictions=tuple((ranks, step.value, step.low, step.high) for ranks, step in steps),
    )
    write_json(stage.prediction_file, written)


def _base(stage: RehearsalStage, rehearsals: Rehearsals, measure: bool) -> Base | None:
    """Returns the step and samples of one rank, measured; or rehearsed if it is not to be measured, or cannot be."""
    loop = any(one.uneven for one in rehearsals.found.values())
    made = measured(stage.measure(1), loop) if measure else None
    if made is not None:
        return Base(made.step, made.samples, measured=True)
    result = rehearsals.found.get(1)
    if result is None and rehearsals.record is None:
        alone = rehearsed(stage.rehearse(1))
        result = alone if isinstance(alone, RehearsedRank) else None
    if result is None:
        return None
    one = predict(result, Links.none)
    return Base(one.step, one.samples, measured=False)


def _other_batches(stage: RehearsalStage, rehearsals: Rehearsals) -> tuple[RehearsedRank, ...]:
    """Rehearses the fewest ranks that are asked for with the arguments of each --also."""
    first = min(set(rehearsals.found) & set(stage.request.ranks))
    made = [
        rehearsed(stage.rehearse(first, name=f"-also{number}", args=args))
        for number, args in enumerate(stage.request.also, 1)
    ]
    return tuple(one for one in made if isinstance(one, RehearsedRank))


def _answer(
    stage: RehearsalStage, rehearsals: Rehearsals, links: Links, check: SelfCheck, others: tuple[RehearsedRank, ...]
) -> RehearsalAnswer:
    request = stage.request
    asked = {ranks: one for ranks, one in sorted(rehearsals.found.items()) if ranks in request.ranks}
    batches = scaled_batches(asked, request.scaling, others, check.base.samples if check.base else None)
    at: list[AtRanks] = []
    failed = list(rehearsals.refused)
    used, spread = Links.none, Spread()
    for ranks, one in batches.found.items():
        link = links.asked(ranks)
        if isinstance(link, Refused):
            failed.append(link)
            continue
        used = link
        comparable = link.origin == "measured" and ranks not in batches.other_batch
        seen = next((made for made in check.measured if made.ranks == ranks), None) if comparable else None
        spread = spread_over(link, tuple(rehearsals.found.values()), check.rows, one, links.sharing(ranks))
        before = asked[ranks] if ranks in batches.other_batch else None
        at.append(AtRanks(one, predict(one, link, links.sharing(ranks), spread), seen, before))
    if not at:
        raise _nothing(failed)
    return RehearsalAnswer(
        script=str(request.script),
        args=request.args,
        device=stage.device if rehearsals.record is None else rehearsals.record.device,
        link=used,
        sharing=at[-1].predicted.sharing,
        spread=spread,
        scaling=request.scaling,
        at=tuple(at),
        base=check.base,
        checks=check.rows,
        check_failed=check.failed,
        refused=tuple(sorted(failed, key=lambda one: one.ranks)),
        warnings=(
            *left_out(stage.runs),
            *(loaded(stage.runs) if rehearsals.record is None else ()),
            *rehearsals.warnings,
            *check.warnings,
            *filter(None, [batches.problem]),
        ),
        guesses=tuple(
            dict.fromkeys(
                [
                    *_guesses(at, check, used, _computes(stage, rehearsals.record)),
                    *_unshared(rehearsals.record),
                    *batches.guesses,
                ]
            )
        ),
        others=others,
        folder=str(stage.folder.path),
    )


def _guesses(at: Sequence[AtRanks], check: SelfCheck, link: Link, computes: str) -> Iterator[str]:
    """The assumptions that the numbers rest on beside measurements."""
    for one in at:
        yield from one.predicted.guesses
    if link.origin != "measured":
        yield f"that a rank there computes as fast as {computes}"
    if not check.rows:
        yield NOTHING_CHECKED


def _unshared(record: ComputingRecord | None) -> tuple[str, ...]:
    """The guess about cores that nobody has measured beside messages: a record keeps computing alone."""
    return (UNSHARED,) if record is not None and record.device == "cpu" else ()


def _computes(stage: RehearsalStage, record: ComputingRecord | None) -> str:
    if record is not None:
        return f"{record.where} (a record; nothing of it was measured here)"
    facts, cores = stage.here.facts, stage.seats.cores_per_rank
    if stage.device == "cuda":
        return f"one {facts.gpus[0].name}"
    return f"{counted(cores, 'core')} of this machine ({facts.cpu_model})"


def _with_further(stage: RehearsalStage, rehearsals: Rehearsals, answer: RehearsalAnswer) -> RehearsalAnswer:
    """Adds rehearsals that show what a change would do: one with small buckets, and one with memory by purpose."""
    first = answer.at[0].ranks
    run = rehearsals.runs[first]
    with_ddp = any(rank.model is not None and rank.model.wrapper == WRAPPER for rank in run.ranks)
    fine = rehearsed(stage.rehearse(first, name="-fine", changes=(SMALL_BUCKETS,))) if with_ddp else None
    inspected = stage.rehearse(first, name="-inspect", company=1, inspect=True)
    rows = inspected.ranks[0].inspection[::-1] if inspected.ranks else ()  # the last rows first, of a settled step
    return replace(
        answer,
        fine=fine if isinstance(fine, RehearsedRank) else None,
        parts=next((row for row in rows if isinstance(row, MemoryPartsRow)), None),
    )
