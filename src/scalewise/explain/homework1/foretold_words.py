"""What is said of predicted ranks: under a table how they were come by, and beside the answers what they would do."""

from collections.abc import Sequence

from scalewise.analysis.estimate import Estimate
from scalewise.explain.answer import Answer
from scalewise.explain.homework1.foretold import Foretelling, Foretold
from scalewise.explain.words import listed, number_phrase, percent_text, seconds_phrase
from scalewise.units import seconds_text

QUESTION = "What would ranks that are not here do?"


def notes(found: Sequence[tuple[str, Foretelling]], *, said_before: bool = False) -> tuple[str, ...]:
    """For the table: how, how far off where it could be seen, and on what guesses; by the name of each case.

    Where an earlier table has said how and on what guesses, only the checks are new.
    """
    rows = [row for _, one in found for row in one.rows]
    refused = dict.fromkeys(reason for _, one in found for reason in one.refused)
    said = [f"Not predicted, {reason}." for reason in refused]
    if not rows:
        return tuple(said)
    if said_before:
        return (*said, f"predicted: as in H1.2. {_checked(found)}")
    counts = listed([str(count) for count in sorted({row.ranks for row in rows})])
    company = max(row.company for row in rows)
    at_once = f" by {company} processes at once" if company > 1 else " by one process"
    how = (
        f"predicted: {counts} ranks with a device each like those here; computing rehearsed{at_once}, messages by the "
        "link right after computing; 90 % intervals."
    )
    last = max(rows, key=lambda row: row.ranks)
    guessed = f"Guessed: {'; '.join(last.guesses)}." if last.guesses else ""
    return (*said, f"{how} {_checked(found)} {guessed}".strip())


def _checked(found: Sequence[tuple[str, Foretelling]]) -> str:
    checks = [
        f"{name} {check.ranks} ranks {seconds_text(check.predicted.value)} for {seconds_text(check.measured.value)} "
        f"measured ({100 * (check.ratio - 1):+.0f} %)".lstrip()
        for name, one in found
        for check in one.checks
    ]
    if not checks:
        return "Not checked: no number of ranks above one could be measured here."
    return f"Checked: {listed(checks)}, and widened by that."


def predicted_answer(row: str, found: Sequence[tuple[str, Foretelling]], tables: tuple[str, ...]) -> tuple[Answer, ...]:
    """One answer, or none where nothing was predicted."""
    told = [(name, one) for name, one in found if one.rows]
    if not told:
        return ()
    text = " ".join(_told(f"the {name} model" if name else "", one.rows) for name, one in told)
    condition = "interval of the predicted speedup at the most ranks: below 1, across 1, or above; 90 %, not measured"
    return (Answer(row, QUESTION, f"Predicted, not measured. {text}", condition, tables),)


def _told(name: str, rows: tuple[Foretold, ...]) -> str:
    figures = listed([f"{seconds_phrase(row.step)} on {row.ranks} ranks{_times(row.speedup)}" for row in rows])
    last = rows[-1]
    share = f"Communication would be {percent_text(last.communication_share)} of the step on {last.ranks}"
    subject = f"{name[:1].upper()}{name[1:]} would take" if name else "A step would take"
    return f"{subject} {figures}. {share}{_verdict(last)}."


def _times(speedup: Estimate | None) -> str:
    return f" (speedup {number_phrase(speedup)})" if speedup else ""


def _verdict(last: Foretold) -> str:
    if last.speedup is None:
        return ""
    if last.speedup.high < 1:
        return ", and they would be slower than one rank"
    if last.speedup.low <= 1:
        return ", and whether they would be faster than one rank cannot be told"
    return f", and they would be faster than one rank, at {percent_text(last.speedup.value / last.ranks)} efficiency"
