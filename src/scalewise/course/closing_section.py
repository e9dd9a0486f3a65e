"""The end of a course report: the machine, what failed, what the reader can do about noise, and how to repeat it.

A doubt about a single number is shown at that number; only what concerns the whole report is here.
"""

from collections.abc import Iterator

from scalewise.analysis.evidence import Evidence
from scalewise.report.document import Block, Code, Paragraph, Section
from scalewise.report.sections.closing import commands, machine_sentences
from scalewise.units import one_sentence

ORDER = 1000
# Name of the caveat -> what happened to how many rows, and what to do.
ADVICE = {
    "loaded machine": "Other programs used the cores while {rows} measured: close them and measure again.",
    "throttled": "The device lowered its clock while {rows} measured: let it cool, and measure again.",
}


def build(evidence: Evidence) -> Section:
    """Builds a short section, as a hand-in has a page limit."""
    blocks: list[Block] = [Paragraph(text) for text in machine_sentences(evidence.machine)]
    blocks += [Paragraph(text) for text in (*_failed(evidence), *_advice(evidence))]
    blocks += [Paragraph("To repeat:"), Code("\n".join(commands(evidence)))]
    return Section("closing", "Machine and commands to repeat", tuple(blocks))


def _failed(evidence: Evidence) -> Iterator[str]:
    runs = evidence.loaded.runs
    bad = [run for run in runs if not run.measured]
    if bad:
        first = bad[0].outcome.sentence if bad[0].outcome else "It did not finish."
        yield one_sentence(f"{len(bad)} of {len(runs)} runs failed or did not finish; the first: {first}")


def _advice(evidence: Evidence) -> Iterator[str]:
    rows = [row for experiment in evidence.analysis.experiments for row in experiment.rows]
    for name, sentence in ADVICE.items():
        touched = sum(any(caveat.name == name for caveat in row.caveats) for row in rows)
        if touched:
            told = f"{touched} of {len(rows)} rows were" if touched > 1 else f"1 of {len(rows)} rows was"
            yield sentence.format(rows=told)
