"""Detects probabilities given to a loss that applies softmax or sigmoid itself."""

import math

from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.finding import Check, Finding
from scalewise.doctor.queries.source import text_of
from scalewise.records.notes import BackwardNote, GradientsNote, TwiceNote

CHECK = Check(
    name="normalised-twice",
    group="model",
    severity="wrong",
    detects="The output of softmax goes into cross_entropy or nll_loss, or that of sigmoid into the loss with logits.",
    why="The loss applies softmax (sigmoid) again. Probabilities lie between 0 and 1, so the second one can never be "
    "sure: the loss cannot fall to 0, gradients are small, and training crawls.",
    example="probabilities = torch.softmax(model(x), dim=1)\nloss = F.cross_entropy(probabilities, y)",
    fix="loss = F.cross_entropy(model(x), y)  # takes the raw outputs",
    needs="a backward pass whose loss could be looked at",
    silent="A log_softmax before cross_entropy changes nothing, and before nll_loss it is right.",
)
LOGITS = {"cross_entropy": "softmax", "binary_cross_entropy_with_logits": "sigmoid"}


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns one finding for each line that calls backward on such a loss."""
    if not any(note.factor is not None for note in case.first.all(BackwardNote)):
        raise Abstain("what the loss is made of could not be seen")
    found = {(note.loss, note.place): note for note in case.first.all(TwiceNote)}
    return tuple(_finding(case, note) for note in found.values())


def _finding(case: Case, note: TwiceNote) -> Finding:
    classes = next((one.classes for one in case.first.all(GradientsNote) if one.classes), None)
    place = case.first.place(note)
    if note.loss == "nll_loss":
        sentence = "nll_loss is given probabilities (softmax); it takes their logarithms."
        fix = "loss = F.nll_loss(F.log_softmax(output, dim=1), target)"
    else:
        sentence = f"{note.loss} is given the output of {note.before} and applies {LOGITS[note.loss]} once more."
        fix = f"loss = F.{note.loss}(output, target)  # output without {note.before}"
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=sentence,
        evidence=(
            f"in the graph of the loss, {note.before} comes right before {note.loss}",
            *_floor(note.loss, classes),
        ),
        fix=f"{fix}\n# leads to: {text_of(place, 'loss.backward()')}",
        where=place,
        steps_seen=len(case.first.windows),
    )


def _floor(loss: str, classes: int | None) -> list[str]:
    """Returns a sentence on the smallest possible loss: one probability of 1 among zeros, put through softmax again."""
    if loss == "cross_entropy" and classes and classes > 1:
        least = math.log(math.e + classes - 1) - 1
        return [f"with {classes} classes the loss cannot fall below {least:.3f}, however good the model is"]
    if loss == "binary_cross_entropy_with_logits":
        return [f"a target of 0 costs at least {math.log(2):.3f}, one of 1 at least {math.log(1 + math.exp(-1)):.3f}"]
    return []
