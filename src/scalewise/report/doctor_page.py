"""Renders a diagnosis as one self-contained HTML file: each finding with its source lines, proof, price and fix."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from scalewise.doctor.diagnosis_text import (
    SourceLine,
    observed_text,
    place_text,
    price_text,
    reasons,
    relative,
    root_of,
    sort_findings,
    source_around,
    summary_text,
    sure_text,
)
from scalewise.doctor.finding import Check, Diagnosis, Finding, rules
from scalewise.records.examination import PlaceRow
from scalewise.report.html import html_prose, page_text, shown

HERE = ' class="here"'


def write_doctor_page(path: Path, diagnosis: Diagnosis) -> None:
    """Writes the page, and makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(doctor_page(diagnosis), encoding="utf-8", errors="replace")


def doctor_page(diagnosis: Diagnosis) -> str:
    """Returns the page; whatever comes from the script is text in it, never markup."""
    root = root_of(Path(diagnosis.script))
    checks = {rule.check.name: rule.check for rule in rules()}
    found = sort_findings(diagnosis)
    numbers = {id(one): index for index, one in enumerate((*found.proved, *found.suspected, *found.notes), start=1)}
    groups = (
        ("found", "Found", found.proved),
        ("suspected", "Suspected, not proved", found.suspected),
        ("notes", "Worth knowing", found.notes),
    )
    body = [f"<p>{html_prose(summary_text(diagnosis))}</p>", *_failure(diagnosis)]
    contents = []
    for name, title, findings in groups:
        if findings:
            parts = [_finding(one, numbers[id(one)], checks, root) for one in findings]
            body.append(f'<section id="{name}"><h2>{title}</h2>{"".join(parts)}</section>')
            contents += [_entry(one, numbers[id(one)]) for one in findings]
    body.append(f'<section id="checked"><h2>What was checked</h2>{"".join(_checked(diagnosis))}</section>')
    contents.append('<li><a href="#checked">What was checked</a></li>')
    subtitle = f"scalewise doctor · {observed_text(diagnosis).replace(', ', ' · ')}"
    return page_text(relative(diagnosis.script, root), subtitle, contents, body)


def _failure(diagnosis: Diagnosis) -> list[str]:
    if not diagnosis.failure:
        return []
    return [f'<p>The script failed by itself:</p><pre tabindex="0"><code>{shown(diagnosis.failure)}</code></pre>']


def _entry(finding: Finding, number: int) -> str:
    where = f' <span class="quiet">line {finding.where.line}</span>' if finding.where else ""
    return f'<li><a href="#f{number}">{shown(finding.check)}</a>{where}</li>'


def _finding(finding: Finding, number: int, checks: Mapping[str, Check], root: Path) -> str:
    check = checks.get(finding.check)
    rows: list[tuple[str, str]] = []
    rows += [("where", "".join(_places([one for one in (finding.where, *finding.also) if one is not None], root)))]
    rows += [("why", html_prose(check.why) if check else "")]
    rows += [("proof", f"{shown(_capital(sure_text(finding)))}.{_list(finding.evidence)}")]
    rows += [("price", html_prose(price_text(finding.price)) if finding.price else "")]
    rows += [("fix", f'<pre tabindex="0"><code>{shown(finding.fix)}</code></pre>' if finding.fix else "")]
    told = "".join(f"<dt>{label}</dt><dd>{markup}</dd>" for label, markup in rows if markup)
    return (
        f'<article class="finding" id="f{number}"><h3>{_badge(finding)}{number}. {shown(finding.check)}</h3>'
        f'<p class="lead">{html_prose(finding.sentence)}</p><dl>{told}</dl></article>'
    )


def _badge(finding: Finding) -> str:
    suspected = finding.proof == "suspected"
    word = f"{finding.severity}?" if suspected else finding.severity
    return f'<span class="verdict {"suspected" if suspected else finding.severity}">{word}</span>'


def _places(places: Sequence[PlaceRow], root: Path) -> Iterator[str]:
    """Yields each place with the lines around it; a place among lines already shown is marked there."""
    shown_already: set[tuple[str, int]] = set()
    for place in places:
        if (place.file, place.line) in shown_already:
            continue
        lines = source_around(place)
        numbers = {line.number for line in lines}
        here = [one for one in places if one.file == place.file and one.line in numbers]
        marked = {one.line for one in here}
        shown_already |= {(place.file, number) for number in marked}
        names = ", ".join(dict.fromkeys(place_text(one, root) for one in here))
        code = "".join(_source(line, line.number in marked) for line in lines)
        quoted = f'<pre class="source" tabindex="0"><code>{code}</code></pre>' if place.text else ""
        yield f"<div>{shown(names)}{quoted}</div>"


def _source(line: SourceLine, marked: bool) -> str:
    return f'<span{HERE if marked else ""}><span class="no">{line.number}</span>{shown(line.text)}\n</span>'


def _checked(diagnosis: Diagnosis) -> Iterator[str]:
    for reason, names in reasons(diagnosis).items():
        told = f"{', '.join(names)}: {reason.rstrip('.')}"
        yield f"<p><b>Not checked ({len(names)}).</b> {html_prose(told)}.</p>"
    yield from (f"<p>{html_prose(note)}</p>" for note in diagnosis.notes)
    if diagnosis.passed:
        yield f"<p><b>Passed ({len(diagnosis.passed)}).</b> {shown(', '.join(diagnosis.passed))}.</p>"
    machine = ", ".join(f"{name} {value}" for name, value in diagnosis.machine.items())
    for label, text in (("The examined run is in", diagnosis.folder), ("Machine:", machine)):
        if text:
            yield f'<p class="quiet small">{label} {shown(text)}</p>'


def _list(facts: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{html_prose(fact)}</li>' for fact in facts)}</ul>" if facts else ""


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
