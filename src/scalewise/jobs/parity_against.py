"""Compares two scripts that should compute the same, on the same number of ranks or one rank with several."""

import json
from dataclasses import replace

from scalewise.agreement.compare_runs import parity_of, relative_rounding
from scalewise.agreement.compared_run import renamed, same_data
from scalewise.agreement.parity_answer import NamedCause, ParityAnswer, sentence_of
from scalewise.jobs.parity_bench import Bench, Untold
from scalewise.jobs.parity_causes import proved_cause
from scalewise.plan.parity_runs import compared_spec, rounding_change
from scalewise.records.parity import SHAPES_FILE


def against_answer(bench: Bench) -> ParityAnswer:
    """Compares the script with another; both are given the same arguments, seeds and ranks."""
    request = bench.request
    assert request.against is not None
    name, other = request.script.name, request.against.name
    if name == other:
        name, other = str(request.script), str(request.against)
    notes: list[str] = []
    answer = ParityAnswer(name, request.ranks, "untold", "", reference=other, other=name)
    try:
        return _compared(bench, answer, notes)
    except Untold as reason:
        sentence = f"It cannot be told whether {name} computes what {other} computes, because {reason}."
        return replace(answer, sentence=sentence, notes=tuple(notes))


def _compared(bench: Bench, answer: ParityAnswer, notes: list[str]) -> ParityAnswer:
    steps, ranks, other = bench.request.steps, bench.request.ranks, answer.reference
    spec = replace(bench.together, script=str((bench.request.against or bench.request.script).resolve()))
    own = bench.compared(compared_spec(bench.together, "script", steps), answer.script)
    reference = bench.compared(compared_spec(spec, "other", steps), other)
    if not own.told("seeded") or not reference.told("seeded"):
        notes.append("Generators that a script does not seed were seeded from outside, alike for both.")
    if own.run.applied("no_dropout") or reference.run.applied("no_dropout"):
        notes.append("Dropout was switched off in both.")
    if not same_data(reference, own):
        raise Untold("they take other samples from their data, although both have the same seeds and arguments")
    rounding = bench.compared(compared_spec(spec, "other-rounding", steps, (rounding_change(ranks),)), other)
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
    if kind == "differs" and bench.request.causes:
        shapes = bench.folder.path / SHAPES_FILE
        shapes.write_text(json.dumps(own.shapes), encoding="utf-8")
        cause, tried = proved_cause(bench, reference, own, rounding, compared)
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
