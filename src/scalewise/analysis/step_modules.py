"""Finds the modules with which a run's steps opened, where samples were counted, or why they could not be."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from scalewise.analysis.series import Series
from scalewise.records.load import Run
from scalewise.records.samples import REASONS


@dataclass(frozen=True)
class StepModules:
    """The modules that opened steps and at which samples were counted: class names, the commonest first."""

    opened_by: tuple[str, ...] = ()  # empty: no call was seen, or the file does not say
    samples_at: tuple[str, ...] = ()
    samples_unknown: str = ""  # a part of a sentence; empty where samples are known, or nothing is said


NOTHING_SEEN = StepModules()


def step_modules(run: Run, series: Series) -> StepModules:
    """The modules as recorded by the first rank that made steps."""
    record = next(rank for rank in run.ranks if rank.rank == series.ranks[0])
    names = {row.number: row.name for row in record.roots}
    reason, module = "", "a module"
    if series.global_samples() is None:
        reasons = Counter((row.samples_unknown, row.samples_at) for row in record.steps if row.samples_unknown)
        if reasons:
            (reason, number), _ = reasons.most_common(1)[0]
            module = names.get(number, module) if number is not None else module
    return StepModules(
        opened_by=_commonest((row.opened_by for row in record.steps), names),
        samples_at=_commonest((row.samples_at for row in record.steps if row.samples is not None), names),
        samples_unknown=REASONS[reason].format(module=module) if reason in REASONS else "",
    )


def _commonest(numbers: Iterable[int | None], names: dict[int, str]) -> tuple[str, ...]:
    counts = Counter(names[number] for number in numbers if number is not None and number in names)
    return tuple(name for name, _ in counts.most_common())


def sentence(modules: StepModules) -> str:
    """A sentence to stand below a table; empty if nothing is known."""
    if not modules.opened_by:
        return ""
    opened = " or ".join(modules.opened_by)
    if not modules.samples_at:
        return f"A step opens with a call of {opened}."
    if modules.samples_at == modules.opened_by:
        return f"A step opens with a call of {opened}; samples are counted at its input."
    return (
        f"A step opens with a call of {opened}; samples are counted at the input of {' or '.join(modules.samples_at)}."
    )
