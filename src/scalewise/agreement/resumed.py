"""Judges a run that goes on from a checkpoint: what it takes up, and what is lost."""

from dataclasses import dataclass, replace

from scalewise.agreement.compare_runs import RunsCompared
from scalewise.agreement.compared_run import ComparedRun, Sketch, Tensors, distance
from scalewise.agreement.parity_answer import NamedCause, ParityKind

CLOSE = 8.0  # units in the last place by which a parameter that was saved and loaded may be off


@dataclass(frozen=True)
class ResumedVerdict:
    """The verdict on a resumed run."""

    kind: ParityKind
    sentence: str
    cause: NamedCause | None = None
    notes: tuple[str, ...] = ()


def resumed_at(through: ComparedRun, resumed: ComparedRun) -> int | None:
    """The number of steps after which the run without a stop had the parameters with which the other goes on."""
    for step in range(through.steps + 1):
        names = [name for at, name in through.parameters if at == step and (0, name) in resumed.parameters]
        if names and all(_equal(through.parameters[step, name], resumed.parameters[0, name]) for name in names):
            return step
    return None


def _equal(one: dict[int, Sketch], other: dict[int, Sketch]) -> bool:
    a, b = (next(iter(sketches.values())) for sketches in (one, other))
    return distance(a, b) <= CLOSE * a.eps * a.norm


def shifted(run: ComparedRun, by: int) -> ComparedRun:
    """The run as if it had begun with a later step."""

    def later(tensors: Tensors) -> Tensors:
        return {(step - by, name): found for (step, name), found in tensors.items() if step >= by}

    return replace(
        run,
        gradients=later(run.gradients),
        parameters=later(run.parameters),
        given={step - by: found for step, found in run.given.items() if step >= by},
        losses={step - by: found for step, found in run.losses.items() if step >= by},
        settings={(step - by, number): found for (step, number), found in run.settings.items() if step >= by},
    )


def resumed_verdict(
    reference: ComparedRun, resumed: ComparedRun, compared: RunsCompared, at: int, through: ComparedRun
) -> ResumedVerdict:
    """Says at which step after the checkpoint the runs part, and what was not taken up."""
    first = compared.first_difference
    step = min((one for one in (first.step if first else None, _other_data(reference, resumed)) if one is not None),
               default=None)  # fmt: skip
    notes = _generator_notes(reference, resumed)
    if step is None:
        last = len(compared.steps)
        sentence = f"The script goes on as if it had not been stopped: {last} steps after step {at} are the same."
        return ResumedVerdict("same", sentence, notes=notes)
    found = list(_lost(reference, resumed, compared, step, through))
    what = found[0] if found else NamedCause("unknown", "what was lost is not known")
    sentence = f"The resumed run parts from the one without a stop at step {at + step + 1}: {what.sentence}."
    return ResumedVerdict("differs", sentence, what if found else None, notes)


def _other_data(reference: ComparedRun, resumed: ComparedRun) -> int | None:
    for step in range(min(reference.steps, resumed.steps)):
        rows, others = reference.given.get(step, {}), resumed.given.get(step, {})
        if any(rows[rank].digests != others[rank].digests for rank in rows.keys() & others.keys()):
            return step
    return None


def _lost(
    reference: ComparedRun, resumed: ComparedRun, compared: RunsCompared, step: int, through: ComparedRun
) -> "list[NamedCause]":
    found = []
    if _other_data(reference, resumed) == step:
        begins = {rank: row.digests for rank, row in through.given.get(0, {}).items()}
        again = step == 0 and {rank: row.digests for rank, row in resumed.given.get(0, {}).items()} == begins
        found.append(
            NamedCause("data-starts-over", "it begins again with the first batches of the data, which repeat",
                       fix="skip the batches that were seen, or save the sampler's state (epoch and position)")
            if again
            else NamedCause("other-batches", "it takes other batches than there would have been",
                            fix="save and restore the sampler's epoch and position, and the generators")
        )  # fmt: skip
    for key, value in reference.settings.get((step, 0), {}).items():
        own = resumed.settings.get((step, 0), {}).get(key, value)
        if own != value:
            name = "scheduler-not-restored" if key.endswith(".lr") else "settings-not-restored"
            said = f"the optimizer's {key.partition('.')[2]} is {own:g} where it would have been {value:g}"
            found.append(NamedCause(name, said, fix="save and load scheduler.state_dict()"))
            break
    first = compared.first_difference
    here = first if first is not None and first.step == step else None
    if here is not None and not found and not here.parted("gradient"):
        said = "the gradients agree and the parameters after the step do not: the optimizer's state was not restored"
        found.append(NamedCause("optimizer-state-not-restored", said, fix="save and load optimizer.state_dict()"))
    if here is not None and not found and _generators_differ(reference, resumed, step):
        said = "batches agree and gradients do not, and the generator is in another state: dropout draws other masks"
        found.append(NamedCause("generator-not-restored", said, fix="save and load torch.get_rng_state()"))
    return found


def _generators_differ(reference: ComparedRun, resumed: ComparedRun, step: int) -> bool:
    rows, others = reference.given.get(step, {}), resumed.given.get(step, {})
    return any(rows[rank].generator != others[rank].generator for rank in rows.keys() & others.keys())


def _generator_notes(reference: ComparedRun, resumed: ComparedRun) -> tuple[str, ...]:
    if _generators_differ(reference, resumed, 0):
        return ("The state of torch's generator was not restored: what is drawn from now on is something else.",)
    return ()
