"""Answers as a rehearsal would give them, for tests of what follows from them and of how it is shown."""

from dataclasses import replace

from factories import make_estimate
from scalewise.analysis.estimate import Estimate
from scalewise.predict.answer import AtRanks, Base, Checked, MeasuredStep, Refused, RehearsalAnswer
from scalewise.predict.link import Link
from scalewise.predict.prediction import LEVEL, Spread, predict
from scalewise.predict.tape import Issue
from scalewise.predict.timeline import APART, Sharing
from taped_steps import MIB, QUICK, SLOW, ddp_tape, rehearsal

GIB = 2**30


def around(value: float, share: float = 0.05, **changes) -> Estimate:
    return make_estimate(value, value * (1 - share), value * (1 + share), LEVEL, positive=True, **changes)


def answer_of(
    numbers=(2, 8, 64),
    *,
    strong: bool = False,
    link: Link = SLOW,
    sharing: Sharing = APART,
    samples: float = 64.0,
    per_sample: float = 0.5e-3,
    **changes,
) -> RehearsalAnswer:
    """Steps of 1 ms and so much for every sample; strong: all ranks together have `samples`."""
    spread = Spread(link=link.spread, model=0.02)
    at = []
    for ranks in numbers:
        own = samples / ranks if strong else samples
        tape = ddp_tape(ranks, own, forward=1e-3, per_sample=per_sample)
        one = rehearsal(tape, peak_bytes=int(GIB + own * 4 * MIB))
        at.append(AtRanks(one, predict(one, link, sharing, spread)))
    alone = ddp_tape(1, samples, forward=1e-3, per_sample=per_sample).compute_seconds
    known = {"at": tuple(at), "base": Base(around(alone), samples, measured=True), "scaling": "script", "device": "cpu"}
    return RehearsalAnswer(
        "train.py", ("--batch", "64"), link=link, sharing=sharing, spread=spread, **{**known, **changes}
    )


def with_samples(answer: RehearsalAnswer, totals) -> RehearsalAnswer:
    """So many samples of all ranks at each number of ranks, whatever was rehearsed."""
    at = [
        replace(one, predicted=replace(one.predicted, samples=float(total)))
        for one, total in zip(answer.at, totals, strict=True)
    ]
    return replace(answer, at=tuple(at))


def shared_model(numbers=(2, 8, 64)) -> RehearsalAnswer:
    """Tensor parallel: a rank has the whole batch and a part of the computing, so samples are counted too often."""
    plain = answer_of(numbers, strong=True, link=QUICK)
    return with_samples(plain, [64 * ranks for ranks in numbers])


def pipeline(numbers=(2, 8, 64)) -> RehearsalAnswer:
    """What a rank sends goes to its neighbour."""
    plain = answer_of(numbers)

    def passed_on(tape):
        return replace(
            tape, entries=tuple(replace(e, kind="send") if isinstance(e, Issue) else e for e in tape.entries)
        )

    at = [
        replace(one, rehearsal=replace(one.rehearsal, tapes=tuple(map(passed_on, one.rehearsal.tapes))))
        for one in plain.at
    ]
    return replace(plain, at=tuple(at))


def full_answer() -> RehearsalAnswer:
    """With everything in it: two ranks measured, one number refused, a warning, guesses, text of a script."""
    plain = answer_of(strong=True)
    first = plain.at[0]
    step = around(first.predicted.step.value * 1.04)
    measured = MeasuredStep(2, step, 64.0, int(1.2 * GIB))
    return replace(
        plain,
        at=(replace(first, measured=measured), *plain.at[1:]),
        checks=(Checked(2, first.predicted.step, step),),
        refused=(Refused(1024, "64 samples cannot be shared by 1024 ranks.", "Use a larger batch."),),
        warnings=("The loss of all ranks decides when the script stops (<b>train.py</b>:12): its steps may differ.",),
        guesses=("that a hop costs nothing more: measured among 2 ranks only",),
        fine=rehearsal(ddp_tape(2, 32.0, forward=1e-3, per_sample=0.5e-3, buckets=16, bucket_bytes=2 * MIB)),
        folder="runs/train",
    )


def shifted(answer: RehearsalAnswer, shift: float) -> RehearsalAnswer:
    """The answer as if checks had moved the step of every number of ranks by that logarithm."""

    def moved(one: AtRanks) -> AtRanks:
        return replace(one, predicted=replace(one.predicted, spread=replace(one.predicted.spread, shift=shift)))

    return replace(answer, at=tuple(map(moved, answer.at)))
