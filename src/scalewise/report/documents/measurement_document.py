"""The document of a suite's measurement: the answers first, then for each experiment its tables and what to doubt."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from scalewise.analysis.caveats import Caveat
from scalewise.analysis.comparison import Comparison
from scalewise.analysis.estimate import level_text
from scalewise.analysis.headline import MOST_HEADLINES, headlines_of
from scalewise.analysis.memory_use import account_lines, growth_lines
from scalewise.analysis.run_files import files_lines
from scalewise.analysis.scaling import preferred_communication
from scalewise.analysis.series import sentence
from scalewise.analysis.summary import Analysis, ArmRow, ExperimentAnalysis, untimed_lines
from scalewise.analysis.utilisation import Utilisation
from scalewise.report.document import Block, Document, Only, Paragraph, Section
from scalewise.report.documents.measured_tables import (
    any_scaled,
    communication_method,
    phases_table,
    steps_table,
    use_notes,
    use_refusals,
    use_table,
)
from scalewise.units import bytes_text, counted, with_capital

LEAST_SHARE = 0.01  # of the step; smaller families are added up
SCALING_NOTES = {
    "strong": "Strong scaling: all ranks together have the base's batch; speedup is the base's step over this one's.",
    "weak": "Weak scaling: each rank has as much as the base's; speedup is of samples/s.",
}
MOST_HOSTS = 8  # named in a note


def measurement_document(analysis: Analysis) -> Document:
    """Returns the whole analysis of a folder."""
    rows = [row for experiment in analysis.experiments for row in experiment.rows]
    lead = _answers(analysis.experiments)
    lead += [Paragraph(analysis.title, tone="strong")] if analysis.title else []
    lead += [Paragraph(note, "not read") for note in analysis.notes]
    memory = (*growth_lines(analysis.memory_growth), *account_lines(analysis.memory_accounts))
    last: list[Block | Only] = [*map(Paragraph, memory), Only("terminal", tuple(map(Paragraph, _legend(rows))))]
    last += map(Paragraph, (*untimed_lines(analysis), *files_lines(analysis.files), *_verdict(analysis, rows)))
    sections = (
        Section("answers", "", tuple(lead)),
        *map(_section, analysis.experiments),
        Section("rest", "", tuple(last)),
    )
    return Document("measurement", "", (), sections, made_by="scalewise show", numbered=False)


def _answers(experiments: Iterable[ExperimentAnalysis]) -> list[Paragraph]:
    """Returns the answers of a script's runs, one per scale; none for many arms, which answer in their tables."""
    found = [one for experiment in experiments for one in headlines_of(experiment.rows)]
    return [Paragraph(one.text()) for one in found] if len(found) <= MOST_HEADLINES else []


def _section(experiment: ExperimentAnalysis) -> Section:
    blocks: list[Block | Only] = [Paragraph(experiment.question)] if experiment.question else []
    if any(row.step_seconds for row in experiment.rows):
        blocks += [steps_table(experiment), phases_table(experiment)]
    blocks += (Paragraph(text, tone="quiet") for text in measurement_notes(experiment))
    blocks += use_blocks(experiment)
    blocks += caveat_paragraphs(caveat for row in experiment.rows if row.mark != "failed" for caveat in row.caveats)
    title = f"{experiment.name}: {experiment.title}" if experiment.title else experiment.name
    return Section(experiment.name, title, tuple(blocks))


def measurement_notes(experiment: ExperimentAnalysis) -> Iterator[str]:
    """Yields notes on what the tables of steps and phases rest on, and what they leave out and why."""
    rows = experiment.rows
    yield from (f"! {row.label}: {row.reason} (logs: {row.run_names[0]}/)" for row in rows if row.mark == "failed")
    dropped = [row.warmup_steps for row in rows if row.warmup_steps is not None]
    if dropped:
        steps = _range([row.step_seconds.steps for row in rows if row.step_seconds], "step")
        runs = _range([row.runs for row in rows if row.runs], "run")
        yield f"Medians over {steps} of {runs}, after {_range(dropped, 'warm-up step')} each."
    yield from _host_notes(rows)
    yield from filter(None, dict.fromkeys(sentence(row.modules) for row in rows))
    bases = dict.fromkeys(row.scaling.base for row in rows if row.scaling.speedup and row.scaling.base != row.label)
    if bases:
        yield f"Speedup is against: {'; '.join(bases)}."
        yield from (text for kind, text in SCALING_NOTES.items() if any(row.scaling.kind == kind for row in rows))
    yield from _refusals(experiment)
    yield from map(_turns_note, experiment.in_turns)
    yield from _relation_notes(rows)
    yield from _communication_notes(rows)
    yield from _memory_notes(rows)


def _host_notes(rows: Sequence[ArmRow]) -> Iterator[str]:
    """Yields on which hosts the rows ran, where they ran on hosts of a cluster."""
    of_hosts: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        if row.hosts:
            of_hosts.setdefault(row.hosts, []).append(row.label)
    for hosts, labels in of_hosts.items():
        more = len(hosts) - MOST_HOSTS
        shown = ", ".join(hosts[:MOST_HOSTS]) + (f" and {more} more" if more > 0 else "")
        yield f"On {shown}: {'all rows' if len(of_hosts) == 1 else '; '.join(labels)}."


def _refusals(experiment: ExperimentAnalysis) -> Iterator[str]:
    """Yields why arms have no speedup, each reason once; of an oversubscribed arm, its mark says so."""
    marked = {row.label for row in experiment.rows if row.mark == "oversubscribed"}
    arms: dict[str, list[str]] = {}
    for one in experiment.refusals:
        if one.arm not in marked:
            arms.setdefault(one.reason, []).append(one.arm)
    for reason, labels in arms.items():
        yield f"No speedup for {'; '.join(labels)}: {reason}."


def _relation_notes(rows: Sequence[ArmRow]) -> Iterator[str]:
    """Yields how the ranks relate where that decides how a row is read, and why a row has no communication."""
    notes: dict[str, list[str]] = {}
    for row in rows:
        relation = row.relation
        if relation is None or relation.kind in ("alone", "apart", "unknown"):
            continue
        if relation.batches is None:
            notes.setdefault(f"samples/s not told: {relation.evidence}.", []).append(row.label)
        elif relation.shares_batches:
            notes.setdefault(f"{relation.kind}: {relation.evidence}; samples count once.", []).append(row.label)
        if not row.communication and "remove_communication" not in row.change:
            what = f"{relation.how}, {relation.kind}" if relation.how else relation.kind
            text = f"no comm. ({what}): what computing does not hide is told by DistributedDataParallel only."
            notes.setdefault(text, []).append(row.label)
    yield from (f"{', '.join(labels)}: {text}" for text, labels in notes.items())


def _turns_note(one: Comparison) -> str:
    if one.change is None:
        return f"{one.b} and {one.a} took turns and are not compared: {'; '.join(one.reasons)}."
    more = "more" if one.change.value > 0 else "less"
    interval = f"{level_text(one.change.level)} interval {one.change.low * 100:+.1f} to {one.change.high * 100:+.1f} %"
    open_end = ", which may be chance" if one.answer == "cannot tell" else ""
    share = f"{abs(one.change.value) * 100:.1f} % {more} time than {one.a}{open_end}"
    return f"A step of {one.b} takes {share} ({interval}; {one.method})."


def _communication_notes(rows: Sequence[ArmRow]) -> Iterator[str]:
    arms: dict[str, list[str]] = {}
    for row in rows:
        chosen = preferred_communication(row.communication, row.change)
        if chosen is not None:
            arms.setdefault(chosen.name, []).append(row.label)
    for method, labels in arms.items():
        yield f"comm. by: {method}." if len(arms) < 2 else f"comm. of {', '.join(labels)} by: {method}."


def _memory_notes(rows: Sequence[ArmRow]) -> Iterator[str]:
    device = [row.memory.cuda_peak_allocated_bytes for row in rows if row.memory.cuda_peak_allocated_bytes]
    host = [row.memory.peak_rss_bytes for row in rows if row.memory.peak_rss_bytes]
    if device:
        yield f"Peak GPU memory of a rank after warm-up: {_byte_range(device)} allocated."
    elif host:
        yield f"Peak memory of a rank's process: {_byte_range(host)}."


def use_blocks(experiment: ExperimentAnalysis) -> Iterator[Block | Only]:
    """Yields how the arms use their devices; nothing if none was inspected. A page draws the kernel families."""
    if not experiment.utilisation:
        return
    table = use_table(experiment)
    if table is not None:
        yield replace(table, notes=tuple(use_notes(experiment)))
    else:
        yield from map(Paragraph, use_refusals(experiment.utilisation))
    yield Only("terminal", tuple(Paragraph(_families(row)) for row in experiment.utilisation if row.families))


def _families(row: Utilisation) -> str:
    large = [one for one in row.families if one.share >= LEAST_SHARE]
    words = [f"{one.family} {100 * one.share:.0f} %" for one in large]
    rest = sum(one.share for one in row.families if one.share < LEAST_SHARE)
    words += [f"less than 1 % each {100 * rest:.0f} %"] if rest >= 0.005 else []
    names = [name for name, seconds in (row.other or {}).items() if seconds][:3]
    if names and any(one.family == "other" for one in large):
        words.append(f"other is mostly {', '.join(name[:40] for name in names)}")
    if row.families_of == "kernels":
        idle = max(0.0, 1 - sum(one.share for one in row.families))
        words.append(f"no kernel {100 * idle:.0f} %")
    return f"{row.arm}, time of one profiled step by {row.families_of}: {', '.join(words)}."


def caveat_paragraphs(caveats: Iterable[Caveat]) -> Iterator[Paragraph]:
    """Yields each caveat with its evidence and what to do; one about several arms once, with the first's evidence."""
    groups: dict[str, list[Caveat]] = {}
    for one in caveats:
        groups.setdefault(one.name, []).append(one)
    for name, group in groups.items():
        first = group[0]
        arms = f" ({len(group)} arms)" if len(group) > 1 else ""
        remedy = with_capital(first.remedy)
        yield Paragraph(f"{first.evidence}. {remedy}.", f"{first.sign}  {name}{arms}")


def _legend(rows: Sequence[ArmRow]) -> list[str]:
    """Returns what the short headings of all tables stand for, once."""
    if not any(row.step_seconds for row in rows):
        return []
    methods = [method for row in rows if (method := communication_method(row))]
    words = [
        "data, forw., backw., optim., rest: where the time of a step goes, mean over ranks.",
        "skew: slowest less fastest rank." if any(row.ranks > 1 for row in rows) else "",
        "vary: standard deviation over mean of a run's steps.",
        "comm.: communication that computing does not hide." if methods else "",
        "serial: Karp-Flatt serial fraction." if any_scaled(rows) else "",
    ]
    chosen = [preferred_communication(row.communication, row.change) for row in rows]
    explained = dict.fromkeys(one.method for one in chosen if one is not None and one.name != one.method)
    return [" ".join(filter(None, words)), *(f"{method}." for method in explained)]


def _verdict(analysis: Analysis, rows: Sequence[ArmRow]) -> list[str]:
    """Returns the last line of a long result, the only one that a small terminal still shows."""
    if len(analysis.experiments) < 2:
        return []
    doubted = [{caveat.name for caveat in row.caveats if caveat.severity == "doubt"} for row in rows]
    counts = Counter(name for names in doubted for name in sorted(names))
    if not counts:
        return [f"No reason was found to doubt any of the {len(rows)} arms."]
    reasons = ", ".join(f"{name} ({count})" for name, count in counts.most_common())
    return [f"DOUBT about {sum(map(bool, doubted))} of {len(rows)} arms: {reasons}. Above it says what to do."]


def _range(numbers: Sequence[int], thing: str) -> str:
    """Returns a count or a range with its noun: `1 run`, `2 to 3 runs`."""
    low, high = min(numbers), max(numbers)
    return counted(high, thing) if low == high else f"{low} to {counted(high, thing)}"


def _byte_range(sizes: Sequence[int]) -> str:
    low, high = bytes_text(min(sizes)), bytes_text(max(sizes))
    return low if low == high else f"{low} to {high}"
