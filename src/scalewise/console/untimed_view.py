"""Lines about the runs that stand in no table: those that were looked into, and those that were rehearsed."""

from scalewise.analysis.summary import Analysis


def untimed_lines(analysis: Analysis) -> list[str]:
    """Each kind with what it came to."""
    return [*_inspected(analysis), *_rehearsed(analysis)]


def _inspected(analysis: Analysis) -> list[str]:
    """How many runs were looked into; they are in none of the tables."""
    count, failed = analysis.inspected_runs, analysis.failed_inspections
    if not count:
        return []
    runs = f"{count} run{' was' if count == 1 else 's were'} inspected and not timed"
    holes = [f"inspection {one.run} shows nothing: {one.reason.rstrip('.')}." for one in failed]
    return [f"{runs}{f', {len(failed)} of them in vain' if failed else ''}.", *holes]


def _rehearsed(analysis: Analysis) -> list[str]:
    """What stood for ranks that are not here; they are in none of the tables, either."""
    good = [one for one in analysis.rehearsed_runs if not one.failure]
    stood = ", ".join(f"{one.run} ({one.company} of {one.ranks} ranks)" for one in good)
    holes = [
        f"rehearsal {one.run} shows nothing: {one.failure.rstrip('.')}."
        for one in analysis.rehearsed_runs
        if one.failure
    ]
    return [f"Rehearsed, not measured, and in no table: {stood}.", *holes] if good else holes
