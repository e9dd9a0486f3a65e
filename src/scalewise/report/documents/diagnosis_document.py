"""The document of a diagnosis: findings worst first, suspicions, notes, what was not checked, what passed."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from scalewise.doctor.finding import (
    Check,
    Diagnosis,
    Finding,
    observed,
    place_text,
    price_text,
    reasons,
    relative,
    root_of,
    rules,
    sort_findings,
    source_around,
    summary_text,
    sure_text,
    verdict_text,
)
from scalewise.records.examination import PlaceRow
from scalewise.report.document import Block, Code, Document, Judgement, Only, Paragraph, Quote, QuotedPlace, Section


def diagnosis_document(diagnosis: Diagnosis, last_words: Sequence[str] = ()) -> Document:
    """Returns the whole diagnosis; `last_words` are what a script that failed said last."""
    root = root_of(Path(diagnosis.script))
    checks = {rule.check.name: rule.check for rule in rules()}
    found = sort_findings(diagnosis)
    lead: list[Block] = [Paragraph(summary_text(diagnosis))]
    if diagnosis.failure:
        lead += [Paragraph("The script failed by itself:"), Code(diagnosis.failure)]
    sections = [Section("summary", "", tuple(lead))]
    number = 1
    for name, title, findings in (
        ("found", "Found", found.proved),
        ("suspected", "Suspected, not proved: these do not change the exit code", found.suspected),
        ("notes", "Worth knowing", found.notes),
    ):
        if findings:
            judged = tuple(_judgement(one, at, checks, root) for at, one in enumerate(findings, number))
            sections.append(Section(name, title, judged))
            number += len(findings)
    sections.append(Section("checked", "What was checked", tuple(_checked(diagnosis))))
    if last_words:
        sections.append(Section("words", "What the script itself said last", (Code("\n".join(last_words)),)))
    name = relative(diagnosis.script, root)
    return Document("doctor", name, observed(diagnosis), tuple(sections), made_by="scalewise doctor", numbered=False)


def _judgement(finding: Finding, number: int, checks: Mapping[str, Check], root: Path) -> Judgement:
    check = checks.get(finding.check)
    facts: list[tuple[str, tuple[str, ...]]] = [("why", (check.why,))] if check else []
    facts.append(("proof", (sure_text(finding), *finding.evidence)))
    facts += [("price", (price_text(finding.price),))] if finding.price else []
    places = [one for one in (finding.where, *finding.also) if one is not None]
    return Judgement(
        name=finding.check,
        verdict=verdict_text(finding),
        tone="suspected" if finding.proof == "suspected" else finding.severity,
        sentence=finding.sentence,
        quotes=tuple(_quotes(places, root)),
        facts=tuple(facts),
        fix=finding.fix,
        number=number,
    )


def _quotes(places: Sequence[PlaceRow], root: Path) -> Iterator[Quote]:
    """Yields each place with the lines around it; places among lines already quoted are part of that quote."""
    quoted: set[tuple[str, int]] = set()
    for place in places:
        if (place.file, place.line) in quoted:
            continue
        around = source_around(place)
        numbers = {line.number for line in around}
        here = {(one.file, one.line): one for one in places if one.file == place.file and one.line in numbers}
        quoted |= set(here)
        shown = tuple(QuotedPlace(place_text(one, root), one.line, one.text) for one in here.values())
        yield Quote(shown, tuple((line.number, line.text) for line in around) if place.text else ())


def _checked(diagnosis: Diagnosis) -> Iterator[Block | Only]:
    for reason, names in reasons(diagnosis).items():
        yield Paragraph(f"{', '.join(names)}: {reason}", f"Not checked ({len(names)})")
    yield from map(Paragraph, diagnosis.notes)
    yield Paragraph(", ".join(diagnosis.passed) or "nothing", f"Passed ({len(diagnosis.passed)})")
    machine = ", ".join(f"{name} {value}" for name, value in diagnosis.machine.items())
    if machine:
        yield Only("page", (Paragraph(machine, "Machine", "quiet"),))
    if diagnosis.folder:
        yield Paragraph(diagnosis.folder, "The examined run", "quiet")
    yield Only("terminal", (Paragraph("scalewise doctor --explain NAME says more about a check."),))
