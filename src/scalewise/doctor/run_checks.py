"""Runs every check on an examined run and collects the findings, worst first."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.finding import SEVERITIES, Diagnosis, Finding, Rule, Unchecked, rules
from scalewise.doctor.queries.times import loading_lines
from scalewise.records.load import Run
from scalewise.records.wrapped import not_observed
from scalewise.units import counted, one_sentence, with_capital

# Consequence -> its causes: if both are found, fixing the cause fixes the consequence as well.
CONSEQUENCES: dict[str, tuple[str, ...]] = {
    "parameters-diverge": ("never-synchronised", "ddp-bypassed", "unused-parameters"),
    "sync-every-micro-batch": ("no-sync-around-backward-only",),
    "same-data": ("no-distributed-sampler",),
    "no-distributed-sampler": ("sampler-seeds-differ",),
    "left-early": ("uneven-ranks",),
    "collective-on-some-ranks": ("uneven-ranks",),
    "straggler": ("one-device-for-all", "threads-per-rank"),
    "launch-bound": ("debugging-left-on", "recompiled-in-loop"),
}
MOST_LETTERS = 300  # longest text that is shown of an exception


def diagnosis_of(case: Case, among: Sequence[Rule] | None = None) -> Diagnosis:
    """Returns what all checks find in the run; a check that fails itself is listed as not made, and stops no other."""
    findings: list[Finding] = []
    passed: list[str] = []
    unchecked: list[Unchecked] = []
    for rule in rules() if among is None else among:
        try:
            found = rule.examine(case)
        except Abstain as reason:
            unchecked.append(Unchecked(rule.check.name, str(reason)))
            continue
        except Exception as error:
            words = f"{type(error).__name__}: {error}"[:MOST_LETTERS]
            unchecked.append(Unchecked(rule.check.name, f"the check itself failed: {words}"))
            continue
        findings += found
        if found:
            continue
        if case.run.spec.without_hooks:
            unchecked.append(Unchecked(rule.check.name, _left_out(case.run)))
        else:
            passed.append(rule.check.name)
    run = case.run
    return Diagnosis(
        script=run.spec.script,
        findings=worst_first(_with_causes(findings)),
        passed=tuple(passed),
        unchecked=tuple(unchecked),
        notes=tuple(_notes(case)),
        steps=len(case.ranks[0].windows) if case.ranks else 0,
        ranks=case.world_size,
        seconds=run.outcome.wall_seconds if run.outcome else 0.0,
        failure=_failure(case),
        folder=str(run.folder),
        machine=_machine(run),
    )


def _left_out(run: Run) -> str:
    """Returns why a check that found nothing has not passed: parts of the watcher had to be left out."""
    return f"found nothing, but scalewise's own {' and '.join(run.spec.without_hooks)} had to be left out"


def worst_first(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Sorts findings: those that count first, then by severity, causes before consequences, highest price first."""
    causes = {finding.check for finding in findings if finding.counts}

    def place(finding: Finding) -> tuple[bool, int, int, float]:
        depth = _depth(finding.check, causes)
        return not finding.counts, SEVERITIES.index(finding.severity), depth, -_milliseconds(finding)

    return tuple(sorted(findings, key=place))


def _milliseconds(finding: Finding) -> float:
    """Returns the price in ms per step, or 0 for a price in another unit: only times can be compared."""
    price = finding.price
    return price.value if price is not None and price.unit == "ms per step" else 0.0


def _depth(check: str, found: set[str]) -> int:
    """Returns the length of the longest chain of found causes that lead to this check's finding."""
    return max((1 + _depth(cause, found) for cause in CONSEQUENCES.get(check, ()) if cause in found), default=0)


def _with_causes(findings: Sequence[Finding]) -> list[Finding]:
    """Adds to each consequence which cause it has; it stays in the list, as it is true and has its own evidence."""
    known = {finding.check: finding for finding in reversed(findings) if finding.counts}
    explained = []
    for finding in findings:
        causes = [known[name] for name in CONSEQUENCES.get(finding.check, ()) if name in known]
        if causes:
            words = f"a consequence of {', '.join(map(_named, causes))}"
            finding = replace(finding, evidence=(*finding.evidence, words))
        explained.append(finding)
    return explained


def _named(cause: Finding) -> str:
    return f"{cause.check} (line {cause.where.line})" if cause.where else cause.check


def _notes(case: Case) -> Iterator[str]:
    run = case.run
    if run.outcome is None:
        yield "The examined run has not ended."
    elif run.outcome.kind == "timed_out":
        limit = f"{run.spec.limit_seconds:g} s"
        yield f"The script was ended at its limit of {limit} and judged by what was seen until then; --limit raises it."
    else:
        yield one_sentence(f"The examined run: {run.outcome.sentence}", *filter(None, [run.outcome.hint]))
    if run.spec.changes:
        yield f"Changed from outside: {', '.join(change.label() for change in run.spec.changes)}."
    silent = sorted({record.rank for record in run.ranks} - {rank.rank for rank in case.ranks})
    if silent:
        yield f"No notes of rank{'s' if len(silent) > 1 else ''} {', '.join(map(str, silent))}."
    yield from (f"{with_capital(text)}." for text in not_observed(run.spec.without_hooks))
    yield from loading_lines(case)
    yield from _troubles(run)
    yield from run.notes
    if run.spec.on_cpu:
        yield from _unseen_on_cpu(case.ranks)


def _troubles(run: Run) -> Iterator[str]:
    troubles = Counter((row.where, row.error) for record in run.ranks for row in record.trouble)
    for (where, error), times in troubles.items():
        again = f" ({times} times)" if times > 1 else ""
        yield f"The watcher failed at {where}: {error[:MOST_LETTERS]}{again}. What rests on it may be missing."
    for record in run.ranks:
        lost = record.torn_lines + len(record.bad_lines)
        if lost:
            yield f"{counted(lost, 'damaged line')} of rank {record.rank}'s notes could not be read."


def _unseen_on_cpu(ranks: Sequence[RankCase]) -> Iterator[str]:
    yield (
        "Examined on the CPU: times and memory are those of the CPU, and what only a GPU shows "
        "(overlap of streams, waiting for a device, memory of a GPU, NCCL) was not seen."
    )
    unseen = sorted({call for rank in ranks if rank.device_use for call in rank.device_use.unseen})
    if unseen:
        yield f"Nothing stands in for these calls on the CPU: {', '.join(unseen)}."


def _failure(case: Case) -> str:
    """Returns the script's own last message, from the rank that failed first; others may only report its absence."""
    outcome = case.run.outcome
    first = outcome.first_failed_rank if outcome else None
    for rank in sorted(case.ranks, key=lambda one: one.rank != first):
        if rank.failure is not None:
            return f"{rank.failure.error}: {rank.failure.message}".removesuffix(": ")
    ends = sorted(case.run.ranks, key=lambda one: one.rank != first)
    return next((record.end.exception for record in ends if record.end and record.end.exception), "")


def _machine(run: Run) -> dict[str, str]:
    facts = run.machine
    if facts is None:
        return {}
    gpus = {"gpus": ", ".join(gpu.name for gpu in facts.gpus)} if facts.gpus else {}
    versions = {name: version for name, version in facts.versions.items() if name in ("python", "torch")}
    return {"host": facts.host, "cpu": facts.cpu_model, "cores": str(len(facts.cores)), **gpus, **versions}
