"""Measures a script for one device under every strategy of parallel training, and compares what each computes."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scalewise.agreement.compare_runs import parity_of, relative_rounding
from scalewise.agreement.compared_run import ComparedRun, equal_data
from scalewise.agreement.parity_answer import percent, sentence_of
from scalewise.agreement.strategy_table import (
    ALONE,
    PredictedRow,
    StrategiesAnswer,
    StrategyParity,
    StrategyRow,
    ordered,
    ring_bytes,
    speedup_over,
)
from scalewise.analysis.estimate import Estimate
from scalewise.analysis.inspected_run import inspection_of
from scalewise.analysis.memory_use import MemoryParts, memory_parts
from scalewise.analysis.scaling import preferred_communication
from scalewise.analysis.series import series
from scalewise.analysis.summary import ArmRow, summarise
from scalewise.errors import BadRequest
from scalewise.jobs.failure_messages import refusal
from scalewise.jobs.measure import Here, Where, planned, suite_folder
from scalewise.jobs.parity import KINKS_NOTE, check_repeats, rounding_of, with_kinks
from scalewise.jobs.parity_causes import proved_cause
from scalewise.jobs.parity_runs import STEPS, ParityRequest, ParityRuns, Untold
from scalewise.jobs.reporter import Reporter
from scalewise.jobs.strategy_predictions import PredictionRequest, Subject, predicted_rows
from scalewise.launch.campaign import Interrupts, run_campaign
from scalewise.launch.forkserver import Servers
from scalewise.launch.this_machine import machine_facts
from scalewise.plan.adhoc import check_script, script_suite
from scalewise.plan.experiment import DeviceChoice
from scalewise.plan.parity_specs import SEEDED, compared_spec
from scalewise.plan.python_file import check_is_python
from scalewise.plan.words import changes_text, parse_changes
from scalewise.records.changes import declared, known_changes
from scalewise.records.examination import AbstainedRow, MeasuredRow
from scalewise.records.folder import SuiteFolder
from scalewise.records.load import Run, load
from scalewise.records.parity import SHAPES_FILE
from scalewise.records.spec import Change, Inspected, RunSpec
from scalewise.units import without_stop

ENOUGH_STEPS = 40
REPEATS = 3
WITHOUT = Change("remove_communication")


@dataclass(frozen=True)
class StrategiesRequest:
    """The script whose strategies are compared, and the options for it."""

    script: Path
    args: tuple[str, ...] = ()
    ranks: int = 2
    only: tuple[str, ...] = ()  # names of strategies; empty: all
    steps: int = ENOUGH_STEPS
    repeats: int = REPEATS
    parity: bool = True
    causes: bool = True
    device: DeviceChoice = "auto"
    limit_seconds: float = 120.0
    stall_seconds: float = 30.0
    out: Path = Path("runs")
    in_place: bool = False
    predict: PredictionRequest | None = None  # also on numbers of ranks that are not here


@dataclass(frozen=True)
class StrategyArm:
    """One strategy: its name in the table, and the change that makes it."""

    name: str
    changes: tuple[Change, ...]

    @property
    def text(self) -> str:
        """The change as it is written."""
        return changes_text(self.changes) if self.changes else ""

    @property
    def slug(self) -> str:
        """The beginning of its runs' names."""
        text = self.text or "one-rank"
        return "".join(letter if letter.isalnum() else "-" for letter in text)


def known_strategies() -> dict[str, str]:
    """Every strategy by its name in tables, with the change that makes it; files of `watch/changes` name their own."""
    found = {}
    for name in known_changes():
        found.update(declared(name).strategies)
    return found


def strategies(request: StrategiesRequest, reporter: Reporter) -> StrategiesAnswer:
    """Returns the table of all strategies that were asked for."""
    check_script(request.script)
    check_is_python(request.script)
    reporter.say("looking at the machine")
    with Servers() as servers:
        return strategies_here(request, reporter, Here(servers, machine_facts(servers)))


def strategies_here(request: StrategiesRequest, reporter: Reporter, here: Here) -> StrategiesAnswer:
    """Does the same on a machine whose facts are known already."""
    began = time.monotonic()
    stage = _Stage(request, reporter, here)
    parities: dict[str, StrategyParity] = {}
    predicted: tuple[PredictedRow, ...] = ()
    stage.measure()
    try:
        stage.inspect()
        parities = stage.compare() if request.parity and stage.applied else {}
        predicted = stage.predict() if request.predict is not None else ()
    except KeyboardInterrupt:
        stage.notes.append("Interrupted after the steps were measured: what is missing was not looked into.")
    rows = stage.rows(parities)
    return StrategiesAnswer(
        script=request.script.name,
        args=request.args,
        ranks=request.ranks,
        device=stage.together.device,
        steps=request.steps,
        repeats=request.repeats,
        rows=ordered(rows),
        predicted=predicted,
        link=_link_name(request.predict),
        memory_bytes=request.predict.memory_bytes if request.predict is not None else None,
        notes=tuple(stage.notes),
        folder=str(stage.folder.path),
        seconds=time.monotonic() - began,
    )


def chosen_arms(only: Sequence[str]) -> tuple[StrategyArm, ...]:
    """The strategies of these names or changes, or all; raises a BadRequest that names those that there are."""
    known = known_strategies()
    by_word = {**{name.lower(): name for name in known}, **{text.lower(): name for name, text in known.items()}}
    unknown = [word for word in only if word.lower() not in by_word]
    if unknown:
        raise BadRequest(
            f"There is no strategy {', '.join(map(repr, unknown))}.", f"There are: {'; '.join(known.values())}."
        )
    names = [by_word[word.lower()] for word in only] or list(known)
    return tuple(StrategyArm(name, parse_changes(known[name])) for name in dict.fromkeys(names))


class _Stage:
    """The runs of one request: every arm timed and repeated, then inspected, then compared with one rank."""

    def __init__(self, request: StrategiesRequest, reporter: Reporter, here: Here) -> None:
        self.request, self.reporter, self.here = request, reporter, here
        self.arms = chosen_arms(request.only)
        suite = script_suite(
            request.script,
            request.args,
            ranks=tuple(dict.fromkeys((1, request.ranks))),
            device=request.device,
            limit_seconds=request.limit_seconds,
            stall_seconds=request.stall_seconds,
            in_place=request.in_place,
        )
        suite = replace(suite, name=f"{suite.name}-strategies")
        plan = planned(suite, reporter, here)
        found = {spec.ranks: spec for spec in plan.runs}
        if set(found) != {1, request.ranks}:
            raise BadRequest(f"{request.ranks} ranks cannot run here.", "Use --device cpu, or fewer ranks.")
        self.alone = replace(found[1], mode="python")  # nothing may tell the script of ranks
        self.together = found[request.ranks]
        self.folder: SuiteFolder = suite_folder(suite, plan, here.facts, Where(request.out, again=True))
        self.notes: list[str] = []
        self.ended: dict[str, tuple[str, str]] = {}  # arms without numbers: kind of row, and the reason
        self._kinks: ComparedRun | None = None
        self.removed: set[str] = set()  # arms whose communication can be removed

    # ---- the runs

    def measure(self) -> None:
        """Makes the timed runs: all arms once, then again those that could be applied."""
        base = self._timed(StrategyArm(ALONE, ()), 0)
        self._make([base])
        self._check_base(self._load(base))
        if self.request.ranks == 1:  # only predictions were asked for
            self._make([self._timed(StrategyArm(ALONE, ()), repeat) for repeat in range(1, self.request.repeats)])
            return
        first = [self._timed(arm, 0) for arm in self.arms]
        self._make(first)
        for arm, spec in zip(self.arms, first, strict=True):
            self._note_end(arm, self._load(spec))
        for repeat in range(self.request.repeats):
            specs = [self._timed(arm, repeat) for arm in (StrategyArm(ALONE, ()), *self.applied)] if repeat else []
            specs += [
                self._timed(arm, repeat, WITHOUT) for arm in self.applied if not repeat or arm.name in self.removed
            ]
            self._make(specs)
            if not repeat:
                self.removed = {
                    arm.name
                    for arm in self.applied
                    if (run := self._load(self._timed(arm, 0, WITHOUT))).measured and run.applied(WITHOUT.name)
                }

    def inspect(self) -> None:
        """Makes one inspected run of each arm."""
        self._make(
            [replace(self._spec(arm), name=f"{arm.slug}-inspected", kind=Inspected()) for arm in self._with_base]
        )

    def compare(self) -> dict[str, StrategyParity]:
        """Compares what each arm computes with one rank; the reason instead where that cannot be told."""
        request = ParityRequest(self.request.script, self.request.args, self.request.ranks, out=self.request.out)
        cores = max(1, len(self.here.facts.cores) // self.request.ranks)
        alone, together = (replace(one, threads_per_rank=cores) for one in (self.alone, self.together))
        bench = ParityRuns(request, self.reporter, self.here, self.folder, alone, together)
        try:
            reference = bench.make_compared(compared_spec(bench.alone, "one-rank-compared", STEPS), ALONE)
            rounding = rounding_of(bench, ())
            check_repeats(bench, reference, relative_rounding(reference, rounding), ())
            shapes = json.dumps(reference.shapes)  # read where a cause is tried
            (self.folder.path / SHAPES_FILE).write_text(shapes, encoding="utf-8")
        except Untold as reason:
            self.notes.append(f"Whether ranks compute what one computes cannot be told, because {reason}.")
            return {}
        self._note_reference(reference, rounding)
        found = {}
        for arm in self.applied:
            own = replace(bench, together=replace(together, name=arm.slug, changes=arm.changes))
            try:
                found[arm.name] = self._compared(own, arm, reference, rounding)
            except Untold as reason:
                found[arm.name] = StrategyParity("untold", f"it cannot be told, because {reason}")
        return found

    def predict(self) -> tuple[PredictedRow, ...]:
        """Rehearses the strategies for the numbers of ranks that were asked for, also those that failed here."""
        assert self.request.predict is not None
        asked, run = self.request, self._load(self._timed(StrategyArm(ALONE, ()), 0))
        found = series(run)
        subject = Subject(
            asked.script, asked.args, asked.device, asked.limit_seconds, asked.stall_seconds, asked.out,
            asked.in_place, found.global_samples() if found else None,
        )  # fmt: skip
        arms = [(arm.name, arm.text, (*arm.changes, *SEEDED)) for arm in self.arms]
        return predicted_rows(self.request.predict, subject, arms, self.reporter, self.here)

    def _compared(
        self, bench: ParityRuns, arm: StrategyArm, reference: ComparedRun, rounding: ComparedRun
    ) -> StrategyParity:
        run = bench.make_compared(compared_spec(bench.together, f"{arm.slug}-compared", STEPS), arm.name)
        fed = run
        if declared(arm.changes[0].name).feeds_first:
            fed = replace(run, given={step: {0: rows[0]} for step, rows in run.given.items() if 0 in rows})
        if not equal_data(reference, fed):
            raise Untold("the ranks together did not take the samples that one rank takes")
        compared = parity_of(reference, run, rounding)
        if compared.first_difference is not None:
            rounding = self._with_kinks(bench, rounding)
            compared = parity_of(reference, run, rounding)
            if compared.first_difference is None and KINKS_NOTE not in self.notes:
                self.notes.append(KINKS_NOTE)
        if not compared.steps or not compared.steps[0].tensors:
            raise Untold("no parameter of one rank is found again on the ranks")
        kind, sentence = sentence_of(compared, ALONE, arm.name)
        worst = max((step.worst.roundings for step in compared.steps if step.worst), default=0.0)
        first, cause = compared.first_difference, None
        if kind == "differs" and self.request.causes:
            cause, _ = proved_cause(bench, reference, run, rounding, compared)
        return StrategyParity(kind, sentence, first.step + 1 if first else None, worst, cause)

    def _with_kinks(self, bench: ParityRuns, rounding: ComparedRun) -> ComparedRun:
        """The rounding with that of values near a kink, which is measured once, when an arm is apart."""
        if self._kinks is None:
            self._kinks = with_kinks(bench, rounding, ())
        return self._kinks

    def _note_reference(self, reference: ComparedRun, rounding: ComparedRun) -> None:
        share = relative_rounding(reference, rounding)
        self.notes.append(f"Rounding of this script, measured: {percent(share)} of the first gradient's length.")
        if not reference.told("seeded"):
            self.notes.append("The script seeds nothing; its generators were seeded from outside, alike on all ranks.")
        if reference.run.applied("no_dropout"):
            self.notes.append("Dropout was switched off where parity was compared.")

    # ---- making and reading runs

    @property
    def applied(self) -> tuple[StrategyArm, ...]:
        """The arms that have numbers."""
        if self.request.ranks == 1:
            return ()
        return tuple(arm for arm in self.arms if arm.name not in self.ended)

    @property
    def _with_base(self) -> tuple[StrategyArm, ...]:
        return (StrategyArm(ALONE, ()), *self.applied)

    def _spec(self, arm: StrategyArm) -> RunSpec:
        spec = self.together if arm.changes else self.alone
        return replace(spec, changes=(*arm.changes, *SEEDED), enough_steps=self.request.steps)

    def _timed(self, arm: StrategyArm, repeat: int, *more: Change) -> RunSpec:
        spec = self._spec(arm)
        name = f"{arm.slug}{'-removed' if more else ''}-r{repeat}"
        return replace(spec, name=name, changes=(*spec.changes, *more), repeat=repeat)

    def _make(self, specs: Sequence[RunSpec]) -> None:
        interrupts = Interrupts()
        with self.reporter.runs("measure") as progress:
            run_campaign(specs, self.folder, self.here.facts, progress, self.here.servers, interrupts)
        if interrupts.asked:
            raise KeyboardInterrupt

    def _load(self, spec: RunSpec) -> Run:
        return load(self.folder.run(spec.name).path).runs[0]

    def _check_base(self, run: Run) -> None:
        """Raises a BadRequest if one rank does not train: then no strategy can be compared with it."""
        outcome, name = run.outcome, self.request.script.name
        if outcome is None or outcome.measured:
            return
        problem = refusal(outcome, run.spec)
        if problem is not None:
            raise problem
        if outcome.kind == "no_steps":
            raise BadRequest(f"{name} made no optimizer step on one rank: there is nothing to compare.", outcome.hint)
        if "environment variable RANK" in outcome.sentence or "'RANK'" in outcome.sentence:
            raise BadRequest(
                f"{name} makes its own process group: it is written for several ranks.",
                f"Compare its ranks with one rank instead: scalewise parity {name}",
            )
        raise BadRequest(f"{name} does not train on one rank: {without_stop(outcome.sentence)}.", outcome.hint)

    def _note_end(self, arm: StrategyArm, run: Run) -> None:
        rows = [row for rank in run.ranks for row in rank.examination if isinstance(row, AbstainedRow)]
        if rows:
            self.ended[arm.name] = ("abstained", rows[0].reason)
        elif not run.measured:
            sentence = without_stop(run.outcome.sentence) if run.outcome else "its run did not end"
            self.ended[arm.name] = ("failed", sentence)
        elif not run.applied(arm.changes[0].name):
            self.ended[arm.name] = ("abstained", _not_applied(arm, run))

    # ---- the table

    def rows(self, parities: dict[str, StrategyParity]) -> list[StrategyRow]:
        """A row for one rank and for each strategy."""
        loaded = load(self.folder.path)
        found = [row for one in summarise(loaded).experiments for row in one.rows]
        runs = {run.spec.name: run for run in loaded.runs}
        by_run = {name: row for row in found for name in row.run_names}
        base = self._row(StrategyArm(ALONE, ()), by_run, runs, None)
        rows = [base]
        for arm in self.arms if self.request.ranks > 1 else ():
            if arm.name in self.ended:
                kind, reason = self.ended[arm.name]
                rows.append(StrategyRow(arm.name, arm.text, kind, reason, self.request.ranks))  # type: ignore[arg-type]
            else:
                rows.append(replace(self._row(arm, by_run, runs, base), parity=parities.get(arm.name)))
        return rows

    def _row(
        self, arm: StrategyArm, by_run: dict[str, ArmRow], runs: dict[str, Run], base: StrategyRow | None
    ) -> StrategyRow:
        spec = self._timed(arm, 0)
        row = by_run.get(spec.name)
        if row is None or row.step_seconds is None:
            return StrategyRow(arm.name, arm.text, "failed", "no step of it had settled", spec.ranks)
        memory = _most_memory(runs.get(f"{arm.slug}-inspected"))
        exposed, method = _exposed(row) if arm.changes else (None, "")
        alone = by_run[self._timed(StrategyArm(ALONE, ()), 0).name]
        return StrategyRow(
            name=arm.name,
            change=arm.text,
            kind="measured",
            ranks=spec.ranks,
            step=row.step_seconds,
            samples_per_second=_rate(alone.samples_per_step, row.loop_seconds or row.step_seconds),
            speedup=speedup_over(base, row.step_seconds) if base is not None else None,
            memory=memory.parts if memory else _known_memory(row),
            peak_bytes=memory.peak_bytes if memory else row.memory.cuda_peak_allocated_bytes,
            sent_bytes=_bytes_sent(row, spec.ranks) if arm.changes else None,
            exposed=exposed,
            exposed_method=method,
            bubble=_bubble(runs.get(spec.name)),
            doubts=tuple(f"{one.name}: {one.evidence}" for one in row.caveats if one.name == "loaded machine"),
        )


def _link_name(asked: PredictionRequest | None) -> str:
    if asked is None:
        return ""
    return asked.link.name if asked.link is not None else "as measured here"


def _rate(samples: float | None, seconds: Estimate) -> Estimate | None:
    """Samples in a second: every strategy has the batch that one rank has."""
    return seconds.through(lambda value: samples / value, positive=True) if samples else None


def _bytes_sent(row: ArmRow, ranks: int) -> float:
    return sum(ring_bytes(one.kind, one.bytes, ranks) for one in row.collectives)


def _exposed(row: ArmRow) -> tuple[Estimate | None, str]:
    found = preferred_communication(row.communication, row.change)
    return (found.seconds, found.name) if found is not None else (None, "")


def _most_memory(run: Run | None) -> MemoryParts | None:
    """The memory of the rank that holds most."""
    found = [memory_parts(inspection_of(replace(run, ranks=(rank,)))) for rank in run.ranks] if run else []
    known = [one for one in found if one is not None]
    return max(known, key=lambda one: one.peak_bytes or sum(one.parts.values()), default=None)


def _known_memory(row: ArmRow) -> dict[str, int] | None:
    """The bytes in a rank's parts of sharded tensors, which an inspection does not look into; no activations."""
    found = {
        "weights": row.memory.parameter_bytes,
        "gradients": row.memory.gradient_bytes,
        "optimizer state": row.memory.optimizer_bytes,
    }
    return {name: size for name, size in found.items() if size is not None} or None


def _bubble(run: Run | None) -> float | None:
    """The share of a pipeline's step in which ranks wait, as the change measured it on each of them."""
    rows = [row for rank in run.ranks for row in rank.examination if isinstance(row, MeasuredRow)] if run else []
    shares = [row.value for row in rows if row.what == "bubble"]
    return sum(shares) / len(shares) if shares else None


def _not_applied(arm: StrategyArm, run: Run) -> str:
    troubles = [row.error for rank in run.ranks for row in rank.trouble if row.where == f"change {arm.changes[0].name}"]
    return troubles[0] if troubles else "the script never calls a module that its optimizer trains"
