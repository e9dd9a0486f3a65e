"""The end of every report: the machine, doubts about the numbers, what is missing, and how to repeat it."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from scalewise.analysis.caveats import Caveat
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.summary import ArmRow, untimed_runs
from scalewise.records.folder import RunFolder
from scalewise.records.load import LoadedSuite
from scalewise.records.machine import MachineFacts
from scalewise.report.document import Block, Code, Paragraph, Section
from scalewise.units import bytes_text, one_sentence, with_capital

ORDER = 1000
MOST_ARMS = 4  # arms named in a list; the rest is counted
MOST_HOLES = 8
LONGEST_EVIDENCE = 160
_SIGNS = ("DOUBT", "IMPRECISE", "note")  # the worst first
# The rows that have these caveats are marked in their tables, and on this machine nothing can be done about them.
MARKED_IN_TABLES = ("emulated", "oversubscribed", "restricted ISA")


def build(evidence: Evidence) -> Section:
    """Builds the section, which is short but has every doubt about a number that can be acted on."""
    blocks: list[Block] = [Paragraph(text) for text in machine_sentences(evidence.machine)]
    blocks += [Paragraph(text) for text in (*untimed_runs(evidence.analysis), *_holes(evidence))]
    blocks += [Paragraph(text) for text in _caveats(evidence)]
    blocks += [Paragraph("To repeat:"), Code("\n".join(commands(evidence)))]
    return Section("closing", "Machine, caveats, commands to repeat", tuple(blocks))


def machine_sentences(machine: MachineFacts | None) -> Iterator[str]:
    """Yields sentences on the machine, its versions, and the precisions that were tried."""
    if machine is None:
        yield "Machine: not recorded in these runs."
        return
    gpus = [f"{gpu.name} ({bytes_text(gpu.memory_bytes)})" for gpu in machine.gpus]
    kinds = [f"{gpus.count(one)} × {one}" for one in dict.fromkeys(gpus)]
    where = "virtual machine" if machine.virtual else "bare metal"
    cpu = f"{machine.cpu_model}, {len(machine.cores)} cores usable, {bytes_text(machine.memory_bytes)}, {where}"
    governor = f", governor {machine.governor}" if machine.governor else ""
    yield f"Machine: {cpu}{governor}. GPUs: {', '.join(kinds) or 'none'}. {machine.system}."
    versions = ", ".join(f"{name} {version}" for name, version in sorted(machine.versions.items()))
    yield f"Versions: {versions or 'not recorded'}."
    works = [f"{one.precision} {one.result}{f' with {one.isa_cap}' if one.isa_cap else ''}" for one in machine.probes]
    if works:
        cap = f"; capped at {machine.isa_cap}" if machine.isa_cap else ""
        yield f"Precisions tried on this CPU: {', '.join(works)}{cap}."


def _not_run(evidence: Evidence, experiment: str) -> str:
    """Returns why an experiment has no runs; on GPUs, the reason may be more ranks than GPUs."""
    ranks = evidence.asked_ranks(experiment)
    gpus = len(evidence.machine.gpus) if evidence.machine else 0
    on_gpus = any(run.spec.device == "cuda" for run in evidence.loaded.runs)
    if on_gpus and ranks and min(ranks) > gpus:
        return f"experiment {experiment}: it needs {min(ranks)} GPUs or more, and this machine has {gpus}"
    return f"experiment {experiment}: no run of it is here"


def _holes(evidence: Evidence) -> Iterator[str]:
    """Yields sentences that name the runs that failed or are missing."""
    loaded, analysis = evidence.loaded, evidence.analysis
    found = [
        f"{run.spec.name}: {_cut(run.outcome.sentence if run.outcome else 'not finished')}"
        for run in loaded.runs
        if not run.measured
    ]
    present = {one.name for one in analysis.experiments} | {one.experiment for one in analysis.examined_runs}
    found += [_not_run(evidence, one.name) for one in loaded.experiments if one.name not in present]
    found += [f"not read: {_cut(_local(note, evidence))}" for note in loaded.notes]
    if not found:
        yield f"No run failed or is missing, of {len(loaded.runs)}."
        return
    more = [f"and {len(found) - MOST_HOLES} more"] if len(found) > MOST_HOLES else []
    yield f"Missing or failed ({len(found)}): {one_sentence(*found[:MOST_HOLES], *more)}"


def _caveats(evidence: Evidence) -> Iterator[str]:
    """Yields each caveat once, doubts first, with the affected arms and the evidence of the first."""
    groups: dict[tuple[int, str], list[tuple[str, ArmRow, Caveat]]] = {}
    for experiment in evidence.analysis.experiments:
        for row in experiment.rows:
            for caveat in row.caveats:
                if row.mark != "failed" and caveat.name not in MARKED_IN_TABLES:
                    kind = _SIGNS.index(caveat.sign), caveat.name
                    groups.setdefault(kind, []).append((experiment.name, row, caveat))
    if not groups:
        yield "No reason was found to doubt any number."
    for (place, name), touched in sorted(groups.items()):
        first = touched[0][2]
        yield (
            f"{_SIGNS[place].capitalize()}, {name}: {one_sentence(_cut(_local(first.evidence, evidence)))} "
            f"{with_capital(_local(first.remedy, evidence))}. Touches {_arms(touched)}."
        )


def _arms(touched: Sequence[tuple[str, ArmRow, Caveat]]) -> str:
    """Returns the arms by experiment, with counts: `strong-scaling (5 arms), delay (2 ranks, delay 0.01)`."""
    by_experiment: dict[str, list[str]] = {}
    for experiment, row, _ in touched:
        by_experiment.setdefault(experiment, []).append(row.label)
    named = [
        f"{name} ({labels[0] if len(labels) == 1 else f'{len(labels)} arms'})" for name, labels in by_experiment.items()
    ]
    others = len(named) - MOST_ARMS
    more = [f"{others} more experiment{'' if others == 1 else 's'}"] if others > 0 else []
    return ", ".join([*named[:MOST_ARMS], *more])


def commands(evidence: Evidence) -> Iterator[str]:
    """Yields the commands that repeat the measurement, with scalewise and without."""
    loaded = evidence.loaded
    yield _run_line(loaded)
    yield f"scalewise report {shlex.quote(f'runs/{loaded.path.name}')}"
    yield from _torchrun_line(evidence)


def _run_line(loaded: LoadedSuite) -> str:
    """Returns the command with the suite's name, or the script with its ranks and arguments."""
    first = next((run.spec for run in loaded.runs), None)
    if first is None or loaded.title != Path(first.script).name:
        return f"scalewise run {shlex.quote(loaded.name)}"
    verb = _verb(loaded)
    counted = [run.spec for run in loaded.runs if run.spec.timed or verb != "run"]
    of_many = [spec.rehearsed.world_size if spec.rehearsed else spec.ranks for spec in counted]
    ranks = ",".join(map(str, sorted(set(of_many))))
    how = "--plain" if first.mode == "python" else f"--ranks {ranks}"
    repeats = max(run.spec.repeat for run in loaded.runs) + 1 if verb == "run" else 1
    words = [
        how,
        *([f"--repeat {repeats}"] if repeats > 1 else []),
        *(["--", shlex.join(first.args)] * bool(first.args)),
    ]
    return f"scalewise {verb} {shlex.quote(Path(first.script).name)} {' '.join(words)}"


def _verb(loaded: LoadedSuite) -> str:
    """Returns the verb that made the runs of one script."""
    if any(run.spec.examined for run in loaded.runs):
        return "doctor"
    return "rehearse" if any(run.spec.rehearsed for run in loaded.runs) else "run"


def _torchrun_line(evidence: Evidence) -> Iterator[str]:
    """Yields the command of one run without scalewise, as its folder keeps it, without this machine's folders."""
    runs = sorted((run for run in evidence.loaded.runs if run.spec.timed), key=lambda run: -run.spec.world_size)
    for run in runs:
        try:
            text = RunFolder(run.folder).command.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        line = next((line for line in reversed(text.splitlines()) if "&&" in line and "SCALEWISE" not in line), "")
        if line:
            short = re.sub(r"^#?\s*cd \S+ && ", "", line)
            yield "# one of the runs, without scalewise:"
            yield re.sub(r"(?<![\w.])/\S*/(?=[\w.-]+(?: |$))", "", short)
            return


def _local(text: str, evidence: Evidence) -> str:
    """Returns the text without the folder's path, so that the same runs give the same report anywhere."""
    return text.replace(f"{evidence.loaded.path}/", "")


def _cut(text: str) -> str:
    single = " ".join(text.split())
    return single if len(single) <= LONGEST_EVIDENCE else f"{single[: LONGEST_EVIDENCE - 1]}…"
