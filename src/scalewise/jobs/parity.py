"""Tells whether several ranks compute what one computes: runs both, measures the rounding, and looks for the cause.

With another script to compare with, it does the same for two scripts on the same ranks.
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from scalewise.agreement.compare_runs import (
    RunsCompared,
    loss_sentence,
    parity_of,
    relative_rounding,
    sample_scale,
)
from scalewise.agreement.compared_run import ComparedRun, equal_data, renamed, same_batch_everywhere, same_data
from scalewise.agreement.parity_answer import NamedCause, ParityAnswer, percent, sentence_of
from scalewise.jobs.measure import Here
from scalewise.jobs.parity_causes import proved_cause
from scalewise.jobs.parity_resume import resume_answer
from scalewise.jobs.parity_runs import ParityRequest, ParityRuns, Untold, parity_runs
from scalewise.jobs.reporter import Reporter
from scalewise.launch.forkserver import Servers
from scalewise.launch.this_machine import machine_facts
from scalewise.plan.adhoc import check_script
from scalewise.plan.parity_specs import KINKS, compared_spec, given_change, rounding_change, start_change
from scalewise.plan.python_file import check_is_python
from scalewise.records.notes import GroupNote
from scalewise.records.parity import SHAPES_FILE
from scalewise.records.spec import Change
from scalewise.units import counted

NOT_REPEATED = 1e-3  # share of a gradient by which two runs of one rank may differ in single precision
KINKS_NOTE = (
    "A value before a ReLU was zero but for rounding, which decides whether it counts: what that does to gradients was "
    "measured and allowed for."
)
LAYERS = {"sources": "the batches", "inputs": "the modules' inputs and targets"}


def parity(request: ParityRequest, reporter: Reporter) -> ParityAnswer:
    """Compares the ranks of a script with one rank of it."""
    for script in filter(None, (request.script, request.against)):
        check_script(script)
        check_is_python(script)
    reporter.say("looking at the machine")
    with Servers() as servers:
        return parity_here(request, reporter, Here(servers, machine_facts(servers)))


def parity_here(request: ParityRequest, reporter: Reporter, here: Here) -> ParityAnswer:
    """Does the same on a machine whose facts are known already."""
    began = time.monotonic()
    runs = parity_runs(request, reporter, here)
    if request.against is not None:
        answer = _against_answer(runs)
    else:
        answer = resume_answer(runs) if request.resume else _answered(runs)
    return replace(answer, folder=str(runs.folder.path), seconds=time.monotonic() - began)


def _answered(runs: ParityRuns) -> ParityAnswer:
    notes: list[str] = []
    name = runs.request.script.name
    untold = ParityAnswer(name, runs.request.ranks, "untold", "")
    try:
        return _compared(runs, notes)
    except Untold as reason:
        sentence = f"It cannot be told whether {runs.request.ranks} ranks compute what one computes, because {reason}."
        return replace(untold, sentence=sentence, notes=tuple(notes))


def _compared(runs: ParityRuns, notes: list[str]) -> ParityAnswer:
    steps, ranks = runs.request.steps, runs.request.ranks
    alone = runs.make_compared(compared_spec(runs.alone, "one-rank", steps), "one rank")
    shapes = runs.folder.path / SHAPES_FILE
    shapes.write_text(json.dumps(alone.shapes), encoding="utf-8")
    spec = compared_spec(runs.together, f"{ranks}-ranks", steps, keeps=True, shapes=shapes.resolve())
    together = runs.make_compared(spec, f"{ranks} ranks")
    if len(together.ranks) < ranks:
        raise Untold(f"only {counted(len(together.ranks), 'rank')} of {ranks} made a step")
    notes += _about(alone, together)
    reference, changes = _reference(runs, alone, together, notes)
    if _starts_elsewhere(reference, together):
        changes = (*changes, start_change(together.run.folder, ranks))
        reference = runs.make_compared(
            compared_spec(runs.alone, "one-rank-same-start", steps, changes), "one rank, started as the ranks are,"
        )
        if reference.run.applied("start_of_ranks"):
            notes.append(
                "One rank was started from the ranks' parameters, as the script draws other ones on another number of "
                "ranks."
            )
    rounding = rounding_of(runs, changes)
    scale = sample_scale(reference, together)
    if scale is not None:
        changes = (*changes, Change("scale_gradients", {"by": scale}))
        reference = runs.make_compared(
            compared_spec(runs.alone, "one-rank-scaled", steps, changes), "one rank, scaled,"
        )
        rounding = rounding_of(runs, changes, "-scaled")
        notes.append(
            "The loss is a sum, divided by a number of samples that the script works out from its ranks: with the "
            f"batch of all, one rank's gradients were taken times {scale:.4g}."
        )
    share = relative_rounding(reference, rounding)
    check_repeats(runs, reference, share, changes)
    compared = parity_of(reference, together, rounding)
    if not compared.steps or not compared.steps[0].tensors:
        raise Untold("no parameter of one rank is found again on the ranks: they have other names or shapes")
    _check_gradients(reference, compared)
    _check_start(compared)
    if compared.first_difference is not None:
        rounding = with_kinks(runs, rounding, changes, "-scaled" if scale is not None else "")
        compared = parity_of(reference, together, rounding)
        notes += [KINKS_NOTE] * (compared.first_difference is None)
    kind, sentence = sentence_of(compared, "one rank", f"{ranks} ranks")
    answer = ParityAnswer(runs.request.script.name, ranks, kind, sentence, compared, relative_rounding=share)
    if compared.first_difference is not None and (
        said := loss_sentence(reference, together, rounding, compared.first_difference.step)
    ):
        notes.append(said)
    if kind == "differs" and runs.request.causes:
        cause, tried = proved_cause(runs, reference, together, rounding, compared)
        answer = replace(answer, cause=cause, tried=tried)
    return replace(answer, notes=tuple(notes))


def _about(alone: ComparedRun, together: ComparedRun) -> Iterator[str]:
    """Yields how the runs were made comparable, and what is worth knowing of the data."""
    if not together.told("seeded"):
        yield "The script seeds nothing; its generators were seeded from outside, each rank's otherwise."
    if together.run.applied("no_dropout"):
        yield "Dropout was switched off in all runs: masks of a rank cannot be those of the whole batch."
    if not any(isinstance(note, GroupNote) for rank in together.run.ranks for note in rank.notes):
        yield (
            "The ranks made no process group, so they exchanged nothing. If the script is meant for one device, "
            "scalewise strategies trains it on several in every way that fits, and compares each with one rank."
        )
    elif same_batch_everywhere(together) and len(together.ranks) > 1:
        yield (
            "All ranks were given the same samples in every step: right for tensor parallelism; with data parallelism "
            "they do the same work over again."
        )
    if alone.steps < together.steps:
        yield f"One rank made {counted(alone.steps, 'step')} only."


def _reference(
    runs: ParityRuns, alone: ComparedRun, together: ComparedRun, notes: list[str]
) -> tuple[ComparedRun, tuple[Change, ...]]:
    """The run of one rank that was given what the ranks were given together, and how it was made so."""
    if equal_data(alone, together):
        notes.append("One rank takes by itself, step by step, the samples that the ranks take together.")
        return alone, ()
    folder, steps, ranks = together.run.folder, runs.request.steps, runs.request.ranks
    reasons: list[str] = []
    for layer, order in _ways(alone, together):
        change = given_change(folder, ranks, layer, order)
        name = f"one-rank-given-{layer}{'-in-turn' if order == 'in-turn' else ''}"
        try:
            run = runs.make_compared(compared_spec(runs.alone, name, steps, (change,)), "one rank with the data of all")
        except Untold as reason:
            reasons.append(str(reason))
            continue
        misfits = run.told("misfit")
        reasons += misfits
        if not misfits and equal_data(run, together):
            notes.append(_given_note(layer, order, alone, together))
            return run, (change,)
    raise Untold(
        "one rank cannot be given the samples of all ranks: "
        + (reasons[-1] if reasons else "what it takes does not become the same")
    )


def _ways(alone: ComparedRun, together: ComparedRun) -> Iterator[tuple[str, str]]:
    """Yields how one rank may be given the data of all: batch by batch, or side by side, nearest to their source first.

    A script that divides its micro-batches by its ranks takes more of them on one rank, one after the other.
    """
    layers = ["sources", "inputs"] if together.told("source") else ["inputs"]
    calls = [sum(row.calls for row in run.given.get(0, {}).values()) for run in (alone, together)]
    in_turn = bool(calls[0]) and calls[0] == calls[1] and len(together.ranks) > 1
    yield from ((layer, "in-turn") for layer in layers if in_turn)
    yield from ((layer, "forward") for layer in layers)


def _given_note(layer: str, order: str, alone: ComparedRun, together: ComparedRun) -> str:
    what, all_of_them = LAYERS[layer], _samples(together)
    if order == "in-turn":
        return f"One rank was given {what} of all ranks one after the other, {all_of_them} samples in the first step."
    return (
        f"One rank was given {what} of all ranks: {all_of_them} samples in the first step, where by itself it takes "
        f"{_samples(alone)}."
    )


def _samples(run: ComparedRun) -> int:
    return sum(row.rows for row in run.given.get(0, {}).values())


def rounding_of(runs: ParityRuns, changes: Sequence[Change], which: str = "") -> ComparedRun:
    """The reference with other rounding; some scripts notice that products are split, and are run without that."""
    steps, ranks = runs.request.steps, runs.request.ranks
    turned = tuple(_backward(one) for one in changes)
    try:
        split = compared_spec(runs.alone, f"one-rank-rounding{which}", steps, (*turned, rounding_change(ranks)))
        return runs.make_compared(split, "one rank, rounded otherwise,")
    except Untold:
        whole = compared_spec(runs.alone, f"one-rank-rounding{which}-unsplit", steps, (*turned, rounding_change(1)))
        return runs.make_compared(whole, "one rank, rounded otherwise,")


def with_kinks(runs: ParityRuns, rounding: ComparedRun, changes: Sequence[Change], which: str = "") -> ComparedRun:
    """The rounding, which knows now what values do that lie at the kink of a ReLU; as it was where there are none."""
    spec = compared_spec(runs.alone, f"one-rank-kinks{which}", runs.request.steps, (*changes, KINKS))
    try:
        kinks = runs.make_compared(spec, "one rank with values near a kink turned")
    except Untold:
        return rounding
    return replace(rounding, kinks=kinks) if kinks.run.applied(KINKS.name) else rounding


def _backward(change: Change) -> Change:
    """The same data with the ranks in the other order."""
    order = change.settings.get("order")
    if order is None:
        return change
    return Change(change.name, {**change.settings, "order": "in-turn-backward" if order == "in-turn" else "backward"})


def check_repeats(runs: ParityRuns, reference: ComparedRun, share: float, changes: Sequence[Change]) -> None:
    """Raises Untold if the script does not repeat itself, and says by how much."""
    if share <= NOT_REPEATED:
        return
    spec = compared_spec(runs.alone, "one-rank-again", runs.request.steps, tuple(changes))
    again = runs.make_compared(spec, "one rank once more")
    by_chance = relative_rounding(reference, again)
    if by_chance > NOT_REPEATED:
        raise Untold(
            f"the script does not repeat itself: two runs of one rank with the same seeds and data differ by "
            f"{percent(by_chance)} in their first gradient"
        )


def _starts_elsewhere(reference: ComparedRun, together: ComparedRun) -> bool:
    """Tells whether the ranks have other parameters than one rank before the first step."""
    return any(not one.rank for one in parity_of(reference, together, None).start)


def _check_gradients(reference: ComparedRun, compared: RunsCompared) -> None:
    """Raises Untold if the gradients of one rank are nothing that could be compared."""
    first = {name: next(iter(found.values())) for (step, name), found in reference.gradients.items() if not step}
    bad = [name for name, sketch in first.items() if sketch.non_finite]
    if bad and len(bad) == len(first):
        raise Untold(f"the first gradient of one rank is not finite, in {bad[0]} and everywhere else")
    if first and all(step.norm == 0 for step in compared.steps):
        raise Untold("all gradients of one rank are exactly zero: the script learns nothing, and nothing can part")


def _check_start(compared: RunsCompared) -> None:
    if any(not one.rank for one in compared.start):
        first = next(one for one in compared.start if not one.rank)
        raise Untold(
            f"the ranks start from other parameters than one rank: {first.name} is apart by {percent(first.relative)} "
            "before the first step, as the script draws or shapes it by rank"
        )


# ---- two scripts that should compute the same


def _against_answer(runs: ParityRuns) -> ParityAnswer:
    """Compares the script with another; both are given the same arguments, seeds and ranks."""
    request = runs.request
    assert request.against is not None
    name, other = request.script.name, request.against.name
    if name == other:
        name, other = str(request.script), str(request.against)
    notes: list[str] = []
    answer = ParityAnswer(name, request.ranks, "untold", "", reference=other, other=name)
    try:
        return _compared_with_other(runs, answer, notes)
    except Untold as reason:
        sentence = f"It cannot be told whether {name} computes what {other} computes, because {reason}."
        return replace(answer, sentence=sentence, notes=tuple(notes))


def _compared_with_other(runs: ParityRuns, answer: ParityAnswer, notes: list[str]) -> ParityAnswer:
    steps, ranks, other = runs.request.steps, runs.request.ranks, answer.reference
    spec = replace(runs.together, script=str((runs.request.against or runs.request.script).resolve()))
    own = runs.make_compared(compared_spec(runs.together, "script", steps), answer.script)
    reference = runs.make_compared(compared_spec(spec, "other", steps), other)
    if not own.told("seeded") or not reference.told("seeded"):
        notes.append("Generators that a script does not seed were seeded from outside, alike for both.")
    if own.run.applied("no_dropout") or reference.run.applied("no_dropout"):
        notes.append("Dropout was switched off in both.")
    if not same_data(reference, own):
        raise Untold("they take other samples from their data, although both have the same seeds and arguments")
    rounding = runs.make_compared(compared_spec(spec, "other-rounding", steps, (rounding_change(ranks),)), other)
    reference, rounding = (renamed(one, own) for one in (reference, rounding))
    compared = parity_of(reference, own, rounding)
    if not compared.steps or not compared.steps[0].tensors:
        raise Untold("no parameter of one is found again in the other: neither names nor shapes agree")
    if compared.start:
        first = compared.start[0]
        raise Untold(f"they start from other parameters: {first.name} differs before the first step")
    kind, sentence = sentence_of(compared, other, answer.script)
    if compared.missing:
        notes.append(f"With a gradient in one of them alone: {', '.join(compared.missing[:5])}.")
    cause: NamedCause | None = None
    tried: tuple[str, ...] = ()
    if kind == "differs" and runs.request.causes:
        shapes = runs.folder.path / SHAPES_FILE
        shapes.write_text(json.dumps(own.shapes), encoding="utf-8")
        cause, tried = proved_cause(runs, reference, own, rounding, compared)
    return replace(
        answer,
        cause=cause,
        tried=tried,
        kind=kind,
        sentence=sentence,
        compared=compared,
        notes=tuple(notes),
        relative_rounding=relative_rounding(reference, rounding),
    )
