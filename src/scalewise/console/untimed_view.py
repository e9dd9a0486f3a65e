"""Lines about the runs that are in no table: inspected and rehearsed ones."""

from scalewise.analysis.summary import Analysis


def untimed_lines(analysis: Analysis) -> list[str]:
    """Lines about inspected and rehearsed runs, each kind with its outcome."""
    return [*_inspected(analysis), *_rehearsed(analysis)]


def _inspected(analysis: Analysis) -> list[str]:
    """The number of inspected runs and which of them failed; they are in none of the tables."""
    count, failed = analysis.inspected_runs, analysis.failed_inspections
    if not count:
        return []
    runs = f"{count} run{' was' if count == 1 else 's were'} inspected and not timed"
    holes = [f"inspection {one.run} shows nothing: {one.reason.rstrip('.')}." for one in failed]
    return [f"{runs}{f', {len(failed)} of them in vain' if failed else ''}.", *holes]


def _rehearsed(analysis: Analysis) -> list[str]:
    """The rehearsed runs, which represented ranks that are not here; they are in none of the tables either."""
    good = [one for one in analysis.rehearsed_runs if not one.failure]
    stood = ", ".join(f"{one.run} ({one.company} of {one.ranks} ranks)" for one in good)
    holes = [
        f"rehearsal {one.run} shows nothing: {one.failure.rstrip('.')}."
        for one in analysis.rehearsed_runs
        if one.failure
    ]
    return [f"Rehearsed, not measured, and in no table: {stood}.", *holes] if good else holes
