"""Reasons to doubt a number that the reader can act on, for its cell and for answers that are based on it."""

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.machine_state import MachineState, machine_state
from scalewise.analysis.summary import ArmRow
from scalewise.course.homework1.comparable_rows import measured_runs
from scalewise.course.summing import shaken_rows
from scalewise.report.document import Answer, Section

# The suite's own choices, such as the number of steps, are no caveat: the reader cannot change them, and the interval
# already shows their effect.
ACT_ON = {
    "failed runs": "a run of it failed: run the suite again, which makes up for what is missing",
    "loaded machine": "other programs used the machine: repeat it on a quiet one",
    "throttled": "the GPU was held back by heat or power: repeat it when it is cool",
    "drift": "steps became slower or faster during the run: repeat it on a quiet machine",
    "ranks apart": "the ranks did not exchange gradients",
}
MOST_BUSY = 0.5  # share of all rows above which one sentence for the report replaces a footnote at every number


def doubt_of(evidence: Evidence, row: ArmRow | None) -> str:
    """Returns the doubt for a cell's footnote; empty if there is none, or if the whole report has the same doubt."""
    names = {caveat.name for caveat in row.caveats if caveat.severity == "doubt"} if row else set()
    if busy_everywhere(evidence):
        names -= {"loaded machine", "drift"}
    found = [text for name, text in ACT_ON.items() if name in names]
    return f"{found[0][:1].upper()}{found[0][1:]}." if found else ""


def shaken_by(evidence: Evidence, *experiments: str) -> tuple[str, ...]:
    """Returns the doubts for an answer based on these experiments; doubts about the whole report are in its summary."""
    found: dict[str, None] = {}
    for name in experiments:
        for row in evidence.rows(name):
            if row.mark == "measured" and (doubt := doubt_of(evidence, row)):
                found[doubt] = None
    return tuple(found)


def busy_everywhere(evidence: Evidence) -> bool:
    """Returns True if more than half of the measured rows were made beside other programs."""
    loaded, every = _busy(evidence)
    return every > 0 and loaded > MOST_BUSY * every


def shaken_answers(evidence: Evidence, sections: tuple[Section, ...]) -> tuple[str, ...]:
    """Returns, for the summary, which answers are based on doubtful numbers, and why."""
    found: dict[str, None] = {}
    if busy_everywhere(evidence):
        loaded, every = _busy(evidence)
        foreign = [state.foreign for state in _states(evidence) if state.foreign is not None]
        share = f", up to {100 * max(foreign):.0f} % of its cores" if foreign else ""
        found[
            f"every time in this report: in {loaded} of {every} measurements other programs used the machine{share}; "
            "repeat it on a quiet one"
        ] = None
    answers = [block for section in sections for block in section.blocks if isinstance(block, Answer)]
    return (*found, *shaken_rows(answers))


def _busy(evidence: Evidence) -> tuple[int, int]:
    rows = [row for one in evidence.analysis.experiments for row in one.rows if row.step_seconds is not None]
    loaded = [row for row in rows if any(caveat.name == "loaded machine" for caveat in row.caveats)]
    return len(loaded), len(rows)


def _states(evidence: Evidence) -> list[MachineState]:
    rows = [row for one in evidence.analysis.experiments for row in one.rows if row.step_seconds is not None]
    return [machine_state(run) for row in rows for run in measured_runs(evidence, row)]
