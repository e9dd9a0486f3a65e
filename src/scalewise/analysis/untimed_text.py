"""Lines about the runs that stand in no table: those that were looked into, examined, or rehearsed."""

from scalewise.analysis.summary import Analysis

Lines = tuple[str, list[str]]  # what was made, empty for nothing; what came to nothing, run by run


def untimed_lines(analysis: Analysis) -> list[str]:
    """Each kind with what came to nothing of it."""
    return [line for made, failed in _kinds(analysis) for line in (*([made] if made else []), *failed)]


def untimed_runs(analysis: Analysis) -> list[str]:
    """Each kind alone, for who names failed runs elsewhere."""
    return [made for made, _ in _kinds(analysis) if made]


def _kinds(analysis: Analysis) -> tuple[Lines, ...]:
    return _inspected(analysis), _examined(analysis), _rehearsed(analysis)


def _inspected(analysis: Analysis) -> Lines:
    """Tells how many runs were inspected, and which of them show nothing."""
    count, failed = analysis.inspected_runs, analysis.failed_inspections
    if not count:
        return "", []
    runs = f"{count} run{' was' if count == 1 else 's were'} inspected and not timed"
    holes = [f"inspection {one.run} shows nothing: {one.reason.rstrip('.')}." for one in failed]
    return f"{runs}{f', {len(failed)} of them in vain' if failed else ''}.", holes


def _examined(analysis: Analysis) -> Lines:
    """The runs that a diagnosis rests on."""
    runs = [f"{one.run} ({', '.join(one.changed)})" if one.changed else one.run for one in analysis.examined_runs]
    ended = [
        f"examined run {one.run} did not get through: {one.failure.rstrip('.')}."
        for one in analysis.examined_runs
        if one.failure
    ]
    return f"Examined, not measured, and in no table: {', '.join(runs)}." if runs else "", ended


def _rehearsed(analysis: Analysis) -> Lines:
    """Tells which rehearsals stood for ranks that are not here, and which of them show nothing."""
    good = [one for one in analysis.rehearsed_runs if not one.failure]
    stood = ", ".join(f"{one.run} ({one.company} of {one.ranks} ranks)" for one in good)
    holes = [
        f"rehearsal {one.run} shows nothing: {one.failure.rstrip('.')}."
        for one in analysis.rehearsed_runs
        if one.failure
    ]
    return f"Rehearsed, not measured, and in no table: {stood}." if good else "", holes
