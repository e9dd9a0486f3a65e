"""The document of a check: the verdict, then each requirement with its mark, its measured number and its line."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from scalewise.course.tasks.requirement import Judged, State, TaskVerdict
from scalewise.records.examination import PlaceRow
from scalewise.report.document import Block, Document, Judgement, Paragraph, Quote, QuotedPlace, Section, Tone

MOST_LETTERS = 100  # of a quoted line
MARKS: dict[State, tuple[str, Tone]] = {
    "fulfilled": ("yes", "good"),
    "not fulfilled": ("NO", "wrong"),
    "not seen": (" ? ", "suspected"),
}


def check_document(verdict: TaskVerdict) -> Document:
    """Returns the whole verdict."""
    sections = [Section("verdict", "", tuple(_failed(verdict) if verdict.failure else _lead(verdict)))]
    if not verdict.failure:
        doctor = f"Mistakes that no sheet names are found by: scalewise doctor {shlex.quote(verdict.script)}"
        sections += [
            Section("requirements", "", tuple(map(_judgement, verdict.judged))),
            Section("more", "", (Paragraph(doctor),)),
        ]
    if verdict.folder:
        where = Paragraph(f"The run is in {verdict.folder}")
        last = sections.pop()
        sections.append(Section(last.id, last.title, (*last.blocks, where)))
    return Document("check", "", (), tuple(sections), made_by="scalewise check", numbered=False)


def _lead(verdict: TaskVerdict) -> Iterator[Block]:
    yield Paragraph(f"{Path(verdict.script).name}: {verdict.sentence()}", tone="strong")
    yield Paragraph(f"It was run with {verdict.setting}.")


def _failed(verdict: TaskVerdict) -> Iterator[Block]:
    yield Paragraph(verdict.failure, tone="strong")
    if verdict.where is not None:
        yield Paragraph(f"At {_line(verdict.where)}")
    if verdict.last_line and verdict.last_line not in verdict.failure:
        yield Paragraph(f"Its last line: {verdict.last_line}")


def _judgement(one: Judged) -> Judgement:
    mark, tone = MARKS[one.found.state]
    where = one.found.where
    seen = "not seen: " if one.found.state == "not seen" else ""
    facts = [("", (f"{seen}{one.found.measured}",))]
    facts += [("change", (one.found.change,))] if one.found.change else []
    quotes = (Quote((QuotedPlace(_line(where), where.line),)),) if where is not None else ()
    return Judgement(one.requirement.id, mark, tone, one.requirement.asks, quotes, tuple(facts))


def _line(where: PlaceRow) -> str:
    return f"{Path(where.file).name}:{where.line}  {where.text.strip()[:MOST_LETTERS]}".rstrip()
