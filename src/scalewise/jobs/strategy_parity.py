"""Compares what a script computes under each strategy with what one rank computes."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache

from scalewise.agreement.compare_runs import parity_of, relative_rounding
from scalewise.agreement.compared_run import ComparedRun, equal_data
from scalewise.agreement.parity_answer import NamedCause, percent, sentence_of
from scalewise.agreement.strategy_table import ALONE, StrategyParity
from scalewise.errors import BadRequest
from scalewise.jobs.parity import KINKS_NOTE, check_repeats, rounding_of, with_kinks
from scalewise.jobs.parity_causes import proved_cause
from scalewise.jobs.parity_runs import STEPS, ParityRequest, ParityRuns, Untold
from scalewise.jobs.strategy_runs import StrategyArm, StrategyRuns
from scalewise.plan.parity_specs import compared_spec
from scalewise.records.changes import declared
from scalewise.records.notes import BatchNormNote
from scalewise.records.parity import SHAPES_FILE
from scalewise.units import without_stop


def compared_strategies(
    runs: StrategyRuns, applied: Sequence[StrategyArm]
) -> tuple[dict[str, StrategyParity], tuple[str, ...]]:
    """The answer for each strategy by name, or the reason why it cannot be told; and notes on all of them."""
    bench = _bench(runs)
    try:
        reference = bench.make_compared(compared_spec(bench.alone, "one-rank-compared", STEPS), ALONE)
        rounding = rounding_of(bench, ())
        check_repeats(bench, reference, relative_rounding(reference, rounding), ())
    except Untold as reason:
        return {}, (f"Whether ranks compute what one computes cannot be told, because {reason}.",)
    shapes = json.dumps(reference.shapes)  # read where a cause is tried
    (runs.folder.path / SHAPES_FILE).write_text(shapes, encoding="utf-8")

    @cache
    def kinked() -> ComparedRun:
        """The rounding with that of values near a kink, which is measured once, when a strategy is apart."""
        return with_kinks(bench, rounding, ())

    found: dict[str, StrategyParity] = {}
    notes = list(_about(reference, rounding))
    for arm in applied:
        own = replace(bench, together=replace(bench.together, name=arm.slug, changes=arm.changes))
        try:
            found[arm.name], said = _compared(own, arm, reference, rounding, kinked)
            notes += said
        except Untold as reason:
            found[arm.name] = StrategyParity("untold", f"it cannot be told, because {reason}")
        except BadRequest as problem:  # of this strategy; the others go on
            found[arm.name] = StrategyParity("untold", f"it cannot be told: {without_stop(problem.sentence)}")
    return found, tuple(dict.fromkeys(notes))


def _parts_of_a_batch(reference: ComparedRun, arm: StrategyArm) -> NamedCause | None:
    """The cause that no change can mend: layers that look at a whole batch, in strategies that cut it into parts."""
    in_parts = "accumulate" in arm.changes[0].settings or declared(arm.changes[0].name).feeds_first
    if not in_parts or not any(isinstance(note, BatchNormNote) for rank in reference.run.ranks for note in rank.notes):
        return None
    sentence = "batch normalisation uses the statistics of each micro-batch, and no change can join those of several"
    return NamedCause("batch-norm-per-part", sentence)


def _bench(runs: StrategyRuns) -> ParityRuns:
    """The runs of the comparison, in the same folder; those of one rank and of several have the same threads."""
    request = ParityRequest(**runs.request.same_script(), ranks=runs.request.ranks, causes=runs.request.causes)
    cores = max(1, len(runs.here.facts.cores) // request.ranks)
    alone, together = (replace(one, threads_per_rank=cores) for one in (runs.alone, runs.together))
    return ParityRuns(request, runs.reporter, runs.here, runs.folder, alone, together)


def _about(reference: ComparedRun, rounding: ComparedRun) -> Iterator[str]:
    """Yields how the runs were made comparable."""
    share = relative_rounding(reference, rounding)
    yield f"Rounding of this script, measured: {percent(share)} of the first gradient's length."
    if not reference.told("seeded"):
        yield "The script seeds nothing; its generators were seeded from outside, alike on all ranks."
    if reference.run.applied("no_dropout"):
        yield "Dropout was switched off where parity was compared."


def _as_many_tensors(reference: ComparedRun, fed: ComparedRun) -> ComparedRun:
    """The reference with the digests of as many of its first tensors as the first stage takes."""
    given = {}
    for step, rows in reference.given.items():
        many = len(fed.given[step][0].digests) if step in fed.given else 0
        given[step] = {
            rank: replace(row, digests=row.digests[:many], across=row.across[:many]) for rank, row in rows.items()
        }
    return replace(reference, given=given)


def _compared(
    bench: ParityRuns,
    arm: StrategyArm,
    reference: ComparedRun,
    rounding: ComparedRun,
    kinked: Callable[[], ComparedRun],
) -> tuple[StrategyParity, tuple[str, ...]]:
    """The answer for one strategy, and what is to be noted of it."""
    run = bench.make_compared(compared_spec(bench.together, f"{arm.slug}-compared", STEPS), arm.name)
    fed, whole, notes = run, reference, tuple[str, ...]()
    if declared(arm.changes[0].name).feeds_first:  # later stages take the other tensors, such as targets
        fed = replace(run, given={step: {0: rows[0]} for step, rows in run.given.items() if 0 in rows})
        whole = _as_many_tensors(reference, fed)
    if not equal_data(whole, fed):
        raise Untold("the ranks together did not take the samples that one rank takes")
    compared = parity_of(reference, run, rounding)
    if compared.first_difference is not None:
        rounding = kinked()
        compared = parity_of(reference, run, rounding)
        notes = (KINKS_NOTE,) if compared.first_difference is None else ()
    if not compared.steps or not compared.steps[0].tensors:
        raise Untold("no parameter of one rank is found again on the ranks")
    kind, sentence = sentence_of(compared, ALONE, arm.name)
    worst = max((step.worst.roundings for step in compared.steps if step.worst), default=0.0)
    first, cause = compared.first_difference, None
    if kind == "differs" and bench.request.causes:
        cause, _ = proved_cause(bench, reference, run, rounding, compared)
        cause = cause or _parts_of_a_batch(reference, arm)
    return StrategyParity(kind, sentence, first.step + 1 if first else None, worst, cause), notes
