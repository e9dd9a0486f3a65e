"""Shows an analysis in the terminal: per experiment what a step takes, where the time goes, and what to doubt."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from rich import box
from rich.table import Table
from rich.text import Text

from scalewise.analysis.caveats import Caveat
from scalewise.analysis.comparison import Comparison
from scalewise.analysis.estimate import CONFIDENCE, Estimate, level_text
from scalewise.analysis.headline import MOST_HEADLINES, Headline, headlines_of
from scalewise.analysis.memory_use import account_lines, growth_lines
from scalewise.analysis.run_files import files_lines
from scalewise.analysis.scaling import preferred_communication
from scalewise.analysis.series import PHASES, sentence
from scalewise.analysis.summary import Analysis, ArmRow, ExperimentAnalysis, untimed_lines
from scalewise.console.output import Output, printable
from scalewise.console.terminal import show_paragraph
from scalewise.console.utilisation_view import use_lines, use_table
from scalewise.plan.words import short_text, value_text
from scalewise.units import bytes_text, seconds_text, three_digits

NONE = "-"
SCALING_NOTES = {
    "strong": "Strong scaling: all ranks together have the base's batch; speedup is the base's step over this one's.",
    "weak": "Weak scaling: each rank has as much as the base's; speedup is of samples/s.",
}


def show_analysis(output: Output, analysis: Analysis) -> None:
    """Prints the analysis of the whole suite: the answers first, then the tables that they rest on."""
    for headline in shown_headlines(analysis):
        show_paragraph(output, headline.text())
    if analysis.title:
        output.show(analysis.title, style="bold")
    for note in analysis.notes:
        show_paragraph(output, f"not read: {note}")
    for experiment in analysis.experiments:
        _show_experiment(output, experiment)
    rows = [row for experiment in analysis.experiments for row in experiment.rows]
    output.data.print()
    memory = (*growth_lines(analysis.memory_growth), *account_lines(analysis.memory_accounts))
    beside = (*untimed_lines(analysis), *files_lines(analysis.files))
    for line in (*memory, *_legend(rows), *beside, *_verdict(analysis, rows)):
        show_paragraph(output, line)


def shown_headlines(analysis: Analysis) -> tuple[Headline, ...]:
    """The answers of a script's runs, one per scale; none for a suite of many arms, which answers in its tables."""
    found = tuple(one for experiment in analysis.experiments for one in headlines_of(experiment.rows))
    return found if len(found) <= MOST_HEADLINES else ()


def _show_experiment(output: Output, experiment: ExperimentAnalysis) -> None:
    output.data.print()
    head = f"{experiment.name}: {experiment.title}" if experiment.title else experiment.name
    output.show(head, style="bold")
    if experiment.question:
        show_paragraph(output, experiment.question)
    if any(row.step_seconds for row in experiment.rows):
        output.table(_steps_table(experiment))
        output.data.print()
        output.table(_phases_table(experiment))
    if experiment.utilisation:
        output.data.print()
        output.table(use_table(experiment.utilisation))
        for line in use_lines(experiment.utilisation):
            show_paragraph(output, line)
    for line in _footnotes(experiment):
        show_paragraph(output, line)
    show_caveats(output, _grouped(experiment.rows))


def _steps_table(experiment: ExperimentAnalysis) -> Table:
    """The table of what a step takes and how it scales."""
    scales = _scales(experiment.rows)
    table = _table()
    _arm_columns(table, experiment)
    for head in (
        "step",
        f"{level_text(CONFIDENCE)} ±",
        "samples/s",
        *(("speedup", "effic.", "serial") if scales else ()),
    ):
        table.add_column(head, justify="right", no_wrap=True)
    for row in experiment.rows:
        cells = [_seconds(row.step_seconds), _half_width(row.step_seconds), _rate(row.samples_per_second)]
        table.add_row(*_arm_cells(row, experiment), *cells, *(_scaling_cells(row) if scales else ()))
    return table


def _phases_table(experiment: ExperimentAnalysis) -> Table:
    """The table of where the time of a step goes and how much it varies; it has one unit."""
    longest = max((row.step_seconds.value for row in experiment.rows if row.step_seconds), default=0.0)
    unit, scale = ("ms", 1e3) if longest >= 1e-3 else ("us", 1e6)
    table = _table()
    _arm_columns(table, experiment)
    communicates = any(map(_method, experiment.rows))
    phases = (f"{unit}: data", "forw.", "backw.", "optim.", "rest")
    for head in (*phases, *(("comm.",) if communicates else ()), "skew", "vary"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in experiment.rows:
        times = [row.phase_seconds.get(phase) for phase in PHASES]
        times += [_communication(row)] if communicates else []
        times += [row.skew_seconds if row.ranks > 1 else None]
        vary = NONE if row.variation is None else f"{row.variation * 100:.0f} %"
        table.add_row(*_arm_cells(row, experiment), *(_scaled(time, scale) for time in times), vary)
    return table


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)


def _arm_columns(table: Table, experiment: ExperimentAnalysis) -> None:
    for axis in experiment.axes:
        table.add_column(axis, no_wrap=True)
    if _intervenes(experiment):
        table.add_column("changed", no_wrap=True)
    table.add_column("ranks", justify="right", no_wrap=True)


def _arm_cells(row: ArmRow, experiment: ExperimentAnalysis) -> list[Text]:
    cells = [Text(printable(value_text(row.axes[axis])) if axis in row.axes else NONE) for axis in experiment.axes]
    if _intervenes(experiment):
        cells.append(Text(short_text(row.change) if row.change != "none" else NONE))
    mark = {"measured": "", "oversubscribed": "*", "emulated": "~", "failed": "!", "unfinished": "?"}[row.mark]
    return [*cells, Text(f"{row.ranks}{mark}")]


def _intervenes(experiment: ExperimentAnalysis) -> bool:
    return any(row.change != "none" for row in experiment.rows)


def _scales(rows: Sequence[ArmRow]) -> bool:
    """Tells whether any arm has another arm as its base."""
    return any(row.scaling.base and not _is_base(row) for row in rows)


def _is_base(row: ArmRow) -> bool:
    return row.scaling.base == row.label


def _scaling_cells(row: ArmRow) -> list[str]:
    scaling = row.scaling
    if _is_base(row) and scaling.speedup is not None:
        return ["base", NONE, NONE]
    speedup = NONE if scaling.speedup is None else f"{scaling.speedup.value:.2f} {_reach(scaling.speedup)}"
    efficiency = NONE if scaling.efficiency is None else f"{scaling.efficiency.value * 100:.0f} %"
    serial = NONE if scaling.serial_fraction is None else f"{scaling.serial_fraction.value:.2f}"
    return [speedup, efficiency, serial]


def _footnotes(experiment: ExperimentAnalysis) -> list[str]:
    rows = experiment.rows
    notes = [f"! {row.label}: {row.reason} (logs: {row.run_names[0]}/)" for row in rows if row.mark == "failed"]
    if any(row.mark == "oversubscribed" for row in rows):
        notes.append("* oversubscribed: more ranks than shares of cores; not scaling.")
    if any(row.mark == "emulated" for row in rows):
        notes.append("~ emulated: devices that this machine does not have; not scaling.")
    if any(row.mark == "unfinished" for row in rows):
        notes.append("? not finished; run the same command again to continue.")
    dropped = [row.warmup_steps for row in rows if row.warmup_steps is not None]
    if dropped:
        steps = _counted([row.step_seconds.steps for row in rows if row.step_seconds], "step")
        runs = _counted([row.runs for row in rows if row.runs], "run")
        notes.append(f"Medians over {steps} of {runs}, after {_counted(dropped, 'warm-up step')} each.")
    notes += filter(None, dict.fromkeys(sentence(row.modules) for row in rows))
    bases = dict.fromkeys(row.scaling.base for row in rows if row.scaling.speedup and not _is_base(row))
    if bases:
        notes.append(f"Speedup is against: {'; '.join(bases)}.")
        notes += [SCALING_NOTES[kind] for kind in ("strong", "weak") if any(row.scaling.kind == kind for row in rows)]
    notes += [f"No speedup for {one.arm}: {one.reason}." for one in experiment.refusals if "oversub" not in one.reason]
    notes += map(_turns_note, experiment.in_turns)
    return [*notes, *_relation_notes(rows), *_communication_notes(rows), *_memory_notes(rows)]


def _relation_notes(rows: Sequence[ArmRow]) -> list[str]:
    """Notes on how the ranks relate where that decides how a row is read, and on why a row has no comm."""
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
    return [f"{', '.join(labels)}: {text}" for text, labels in notes.items()]


def _turns_note(one: Comparison) -> str:
    if one.change is None:
        return f"{one.b} and {one.a} took turns and are not compared: {'; '.join(one.reasons)}."
    more = "more" if one.change.value > 0 else "less"
    interval = f"{level_text(one.change.level)} interval {one.change.low * 100:+.1f} to {one.change.high * 100:+.1f} %"
    open_end = ", which may be chance" if one.answer == "cannot tell" else ""
    share = f"{abs(one.change.value) * 100:.1f} % {more} time than {one.a}{open_end}"
    return f"A step of {one.b} takes {share} ({interval}; {one.method})."


def _communication_notes(rows: Sequence[ArmRow]) -> list[str]:
    arms: dict[str, list[str]] = {}
    for row in rows:
        if _method(row):
            arms.setdefault(_method(row).partition(":")[0], []).append(row.label)
    if len(arms) < 2:
        return [f"comm. by: {method}." for method in arms]
    return [f"comm. of {', '.join(labels)} by: {method}." for method, labels in arms.items()]


def _memory_notes(rows: Sequence[ArmRow]) -> list[str]:
    device = [row.memory.cuda_peak_allocated_bytes for row in rows if row.memory.cuda_peak_allocated_bytes]
    if device:
        return [f"Peak GPU memory of a rank after warm-up: {_byte_range(device)} allocated."]
    host = [row.memory.peak_rss_bytes for row in rows if row.memory.peak_rss_bytes]
    return [f"Peak memory of a rank's process: {_byte_range(host)}."] if host else []


def _legend(rows: Sequence[ArmRow]) -> list[str]:
    """Explanations of the columns' heads, once for all tables."""
    if not any(row.step_seconds for row in rows):
        return []
    words = [
        "data, forw., backw., optim., rest: where the time of a step goes, mean over ranks.",
        "skew: slowest less fastest rank." if any(row.ranks > 1 for row in rows) else "",
        "vary: standard deviation over mean of a run's steps.",
        "comm.: communication that computing does not hide." if any(map(_method, rows)) else "",
        "serial: Karp-Flatt serial fraction." if _scales(rows) else "",
    ]
    explained = dict.fromkeys(method for row in rows if ":" in (method := _method(row)))
    return [" ".join(word for word in words if word), *(f"{method}." for method in explained)]


def _verdict(analysis: Analysis, rows: Sequence[ArmRow]) -> list[str]:
    """The last line of a long report, the only one that a small terminal still shows."""
    if len(analysis.experiments) < 2:
        return []
    doubted = [{caveat.name for caveat in row.caveats if caveat.severity == "doubt"} for row in rows]
    counts = Counter(name for names in doubted for name in sorted(names))
    if not counts:
        return [f"No reason was found to doubt any of the {len(rows)} arms."]
    reasons = ", ".join(f"{name} ({count})" for name, count in counts.most_common())
    return [f"DOUBT about {sum(map(bool, doubted))} of {len(rows)} arms: {reasons}. Above it says what to do."]


def _grouped(rows: Sequence[ArmRow]) -> list[Caveat]:
    """The caveats of all arms but failed ones; one about several arms is named once, with the evidence of the first."""
    groups: dict[str, list[Caveat]] = {}
    for row in rows:
        for caveat in () if row.mark == "failed" else row.caveats:
            groups.setdefault(caveat.name, []).append(caveat)
    return [
        replace(group[0], name=f"{name} ({len(group)} arms)" if len(group) > 1 else name)
        for name, group in groups.items()
    ]


def show_caveats(output: Output, caveats: Sequence[Caveat]) -> None:
    """Prints each caveat with its evidence and what to do."""
    for caveat in caveats:
        remedy = f"{caveat.remedy[:1].upper()}{caveat.remedy[1:]}"
        show_paragraph(output, f"{caveat.sign}  {caveat.name}: {caveat.evidence}. {remedy}.")


def _method(row: ArmRow) -> str:
    chosen = preferred_communication(row.communication, row.change)
    return chosen.method if chosen else ""


def _communication(row: ArmRow) -> float | None:
    chosen = preferred_communication(row.communication, row.change)
    return chosen.seconds.value if chosen else None


def _seconds(estimate: Estimate | None) -> str:
    return NONE if estimate is None else seconds_text(estimate.value)


def _half_width(estimate: Estimate | None) -> str:
    return NONE if estimate is None else f"{three_digits(estimate.half_width * 100)} %"


def _reach(estimate: Estimate) -> str:
    return f"±{(estimate.high - estimate.low) / 2:.2f}"


def _rate(estimate: Estimate | None) -> str:
    return NONE if estimate is None else f"{estimate.value:,.0f}"


def _scaled(seconds: float | None, scale: float) -> str:
    if seconds is None:
        return NONE
    return three_digits(seconds * scale) if seconds else "0"


def _counted(numbers: Sequence[int], thing: str) -> str:
    """A count or range with its noun: `1 run`, `2 to 3 runs`."""
    low, high = min(numbers), max(numbers)
    return f"{low if low == high else f'{low} to {high}'} {thing}{'' if high == 1 else 's'}"


def _byte_range(sizes: Sequence[int]) -> str:
    low, high = bytes_text(min(sizes)), bytes_text(max(sizes))
    return low if low == high else f"{low} to {high}"
