"""Detects losses of micro-batches that are summed, so that the gradient is too large by the number of micro-batches."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.finding import Check, Finding, Price, Replayed
from scalewise.doctor.queries.accumulation import Accumulation, Weighed, accumulation_of, alike, close, weighed
from scalewise.doctor.queries.source import divided
from scalewise.records.inspection import GradientRow
from scalewise.records.spec import Change

CHECK = Check(
    name="loss-not-divided",
    group="accumulation",
    severity="wrong",
    detects="The mean losses of a window's micro-batches are summed, not averaged, and nothing divides the gradient.",
    why="The gradient is K times that of the whole batch: as if the learning rate were K times larger, and clipping"
    " cuts K times earlier. Adam hides most of it, but not in clipping, its epsilon, or a change of K.",
    example="""loss = criterion(model(x), y)  # a mean
loss.backward()
if (i + 1) % K == 0:
    optimizer.step()""",
    fix="""loss = criterion(model(x), y)
(loss / K).backward()
if (i + 1) % K == 0:
    optimizer.step()""",
    needs="the loss's own reduction and the gradient that is applied, seen in the first windows",
    silent="Losses that are sums, or are divided by a count of tokens; gradients that are divided before the step; one"
    " batch that is passed several times in several views.",
)
SCALE_FREE = ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Adagrad", "Adadelta", "Lion", "Muon")


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns a finding if the applied weights of a window's losses sum up to the number of micro-batches."""
    found = accumulation_of(case.first)
    if not found.windows:
        return ()
    if found.shared_batch and not _is_cut_up(found):
        raise Abstain("several backward passes per batch of the loader: whether their losses are to be added is open")
    if any(len({note.digest for note in one.forwards}) > 1 for update in found.windows for one in update.micro_batches):
        raise Abstain("several forward passes per backward pass: what the loss is a mean over is not known")
    known = [one for one in map(weighed, found.windows) if one is not None]
    if not known:
        raise Abstain("with which weight a loss enters the gradient could not be seen")
    too_large = [one for one in known if close(one.total, one.update.size)]
    if len(too_large) < 0.8 * len(known):
        return ()
    return (_finding(case, found, too_large, len(known)),)


def _is_cut_up(found: Accumulation) -> bool:
    """Returns True if the micro-batches of a window are the parts of one batch: together they have its rows."""
    loader = next((row for row in found.rank.loaders if row.index in found.loaders), None)
    rows = [note.rows for one in found.windows[0].micro_batches for note in one.forwards[:1]]
    if loader is None or loader.batch_size is None or None in rows:
        return False
    return sum(one or 0 for one in rows) == loader.batch_size


def _finding(case: Case, found: Accumulation, too_large: Sequence[Weighed], known: int) -> Finding:
    rank, size = found.rank, found.size
    note = too_large[0].update.backwards[0]
    place = rank.place(note)
    totals = [one.total for one in too_large]
    times = statistics.median(totals)
    by = f"{size}" if found.steady else "micro_batches"
    evidence = [
        f"{size} micro-batches per step, each with weight {too_large[0].each * _unscale(too_large):.3g} on its mean "
        f"loss, together {times:.3g}; they should be 1 together ({len(too_large)} of {known} windows looked at)",
        f"between backward and step the gradient is multiplied by {too_large[0].applied:.3g}",
    ]
    optimizer = next((row.optimizer for row in rank.optimizers), "")
    if optimizer in SCALE_FREE:
        evidence.append(f"{optimizer} divides most of the factor out again; clipping, epsilon and a change of the "
                        "window still see it")  # fmt: skip
    return Finding(
        check=CHECK.name,
        severity=CHECK.severity,
        sentence=f"The gradient is {times:.3g} times that of the whole batch: the losses of {size} micro-batches are "
        "summed, not averaged.",
        evidence=tuple(evidence),
        fix=divided(place, by),
        where=place,
        price=Price(times, "times", "the gradient of the whole batch", "computed from the weights seen in backward"),
        steps_seen=known,
        change=Change("divide_loss", {"by": size}) if found.steady else None,
    )


def _unscale(windows: Sequence[Weighed]) -> float:
    """Returns the factor that takes a GradScaler's scale out of a weight that is shown."""
    ratios = [one.applied for one in windows]
    return ratios[0] if alike(ratios) and ratios[0] > 0 else 1.0


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Marks the finding as proved if dividing the loss changes the first step's gradient by the expected factor."""
    pairs = [(read(replayed.plain), read(replayed.fixed), what) for read, what in NORMS]
    plain, fixed, what = next((pair for pair in pairs if pair[0] and pair[1]), (None, None, ""))
    if replayed.trouble or not replayed.applied or not plain or not fixed or finding.price is None:
        return finding
    times = plain / fixed
    text = f"norm of {what}: {plain:.4g} as it is, {fixed:.4g} with the loss divided"
    if not close(times, finding.price.value, 0.1):
        otherwise = f"{text}: not {finding.price.value:.3g} times, so something else acts on it"
        return replace(finding, evidence=(*finding.evidence, otherwise))
    price = Price(times, "times", "the gradient of the whole batch", "measured in the first step, with the fix applied")
    return replace(finding, evidence=(*finding.evidence, text), price=price, proof="replayed")


def _norm_before_clipping(case: Case) -> float | None:
    """Returns the norm that clip_grad_norm_ found in the first step; None if not called, or its result not read."""
    clips = case.first.windows[0].clips if case.first.windows else ()
    return next((note.norm for note in clips if note.norm is not None), None)


def _norm_left_by_backward(case: Case) -> float | None:
    """Returns the norm of one parameter's gradient, if the first step's gradients were clipped by an unknown norm."""
    first = case.first.windows[0] if case.first.windows else None
    return first.step.left if first is not None and first.clips and first.step is not None else None


def _norm_at_step(case: Case) -> float | None:
    rows = [row for row in case.first.record.inspection if isinstance(row, GradientRow)]
    return rows[0].norm if rows else None


# A clipped gradient has the same norm with and without the fix; its norm before clipping differs. The first of these
# norms that is known of both runs is compared.
NORMS: tuple[tuple[Callable[[Case], float | None], str], ...] = (
    (_norm_before_clipping, "the first step's gradient before it is clipped"),
    (_norm_left_by_backward, "one parameter's gradient in the first step before it is clipped"),
    (_norm_at_step, "the first step's gradient"),
)
