"""Writes reports: from a suite's folder to PDF, HTML, and each table as CSV and Markdown."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from scalewise.analysis.evidence import Evidence
from scalewise.errors import BadRequest, did_you_mean
from scalewise.records.folder import RunFolder, SuiteFolder
from scalewise.report.build_document import PagesOf, Say, document_of, evidence_of, no_pages
from scalewise.report.document import Block, Document, Figure, Paragraph, Table, TitleBlock

FORMATS = ("pdf", "html", "tables")
DEFAULT_OUT = Path("reports")
NOBODY = TitleBlock()
AnswerMode = Literal["full", "hints"]


def _silent(_: str) -> None:
    """Does nothing, for callers that show no messages."""


@dataclass(frozen=True)
class ReportOptions:
    """The options of a report."""

    out: Path = DEFAULT_OUT
    formats: Sequence[str] = FORMATS
    link_raw_rows: bool = False  # whether the HTML links to the folder of the runs
    author: TitleBlock = NOBODY  # the person who hands it in; machine and date come from the runs
    answers: AnswerMode = "full"
    pages_of: PagesOf = no_pages


DEFAULT = ReportOptions()


def write_report(folder: Path, options: ReportOptions = DEFAULT, say: Say = _silent) -> tuple[Path, ...]:
    """Writes one suite's report and returns its files; the report and a message name what could not be made."""
    return write_reports([folder], options, say)


def write_reports(folders: Sequence[Path], options: ReportOptions = DEFAULT, say: Say = _silent) -> tuple[Path, ...]:
    """Writes one report for each folder; if two suites have the same name, the later uses its folder's name."""
    made: list[Path] = []
    taken: set[str] = set()
    for folder in folders:
        path = folder.resolve()
        document = _document(evidence_of(path), options, say)
        if document.id in taken:
            document = replace(document, id=path.name)
        taken.add(document.id)
        made += write_document(document, path, options.out, options.formats, say, options.link_raw_rows)
    return tuple(made)


def write_merged_report(
    folder: Path, elsewhere: Sequence[Path], options: ReportOptions = DEFAULT, say: Say = _silent
) -> tuple[Path, ...]:
    """Writes one report of a suite measured on several machines; it is about the first folder's machine."""
    path = folder.resolve()
    twice = next((one for one in elsewhere if one.resolve() == path), None)
    if twice is not None:
        raise BadRequest(f"{twice} is named twice.", "Name the folder of another machine beside it.")
    others = tuple(evidence_of(one.resolve()) for one in elsewhere)
    evidence = replace(evidence_of(path), elsewhere=others)
    strange = [one.loaded for one in others if one.loaded.name != evidence.loaded.name]
    if strange:
        names = ", ".join(f"{one.path} is of {one.name or 'no suite'}" for one in strange)
        raise BadRequest(
            f"{path} is of {evidence.loaded.name}, and {names}.", "Only runs of the same suite go into one report."
        )
    if not options.pages_of(evidence.loaded.name).modules:
        raise BadRequest(
            f"{evidence.loaded.name} is no suite of the course, and only of those several machines make one report.",
            f"To set them beside each other: scalewise compare {folder} {elsewhere[0]}",
        )
    for told in _not_used(others):
        say(told)
    document = _document(evidence, options, say)
    return tuple(write_document(document, path, options.out, options.formats, say, options.link_raw_rows))


def _not_used(others: Sequence[Evidence]) -> Iterator[str]:
    """Folders of which nothing comes into the report, each with the reason."""
    used = next((one for one in others if one.machine is not None and one.machine.gpus), None)
    for one in others:
        if one.machine is None or not one.machine.gpus:
            yield f"{one.loaded.path} was measured without a GPU, and rows of GPUs are what is taken: it is not used"
        elif one is not used and used is not None:
            yield f"rows of GPUs are taken from one machine, {used.loaded.path}: {one.loaded.path} is not used"


def _document(evidence: Evidence, options: ReportOptions, say: Say) -> Document:
    """Returns the report as values, with its author."""
    document = document_of(evidence, say, options.pages_of)
    if document.title_block is None:
        return document
    author = replace(options.author, machine=document.title_block.machine, date=document.title_block.date)
    return replace(document, title_block=author, answers=options.answers)


def suite_folders(path: Path) -> tuple[Path, ...]:
    """Returns the folder itself if it contains runs, else the suites in it."""
    if RunFolder(path).spec.is_file() or not path.is_dir() or SuiteFolder(path).runs():
        return (path,)
    found = [one for one in sorted(path.iterdir()) if one.is_dir() and SuiteFolder(one).runs()]
    return tuple(found) or (path,)


def parse_formats(text: str) -> tuple[str, ...]:
    """Parses formats as a person writes them: `pdf,html`."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    unknown = [word for word in words if word not in FORMATS]
    if unknown or not words:
        near = did_you_mean(unknown[0], FORMATS) if unknown else ""
        raise BadRequest(
            f"{', '.join(map(repr, unknown)) or 'Nothing'} is not a format of reports.",
            f"{near} Formats are {', '.join(FORMATS)}.".strip(),
        )
    return tuple(dict.fromkeys(words))


def write_document(
    document: Document, runs: Path, out: Path, formats: Sequence[str], say: Say, link_raw_rows: bool = False
) -> tuple[Path, ...]:
    """Writes the files of a document whose raw rows are under `runs`.

    The page links to the raw rows only on request: such links break when the page is handed in without the runs.
    """
    from scalewise.report.tables import file_name

    document = showable(document, say)
    name = file_name(document.id)
    made: list[Path] = []
    try:
        out.mkdir(parents=True, exist_ok=True)
        if "pdf" in formats:
            made += _write_pdf(document, out / f"{name}.pdf", formats, say)
        if "html" in formats:
            made += _write_html(document, (runs, out.resolve()) if link_raw_rows else None, out / f"{name}.html", say)
        if "tables" in formats:
            made += _write_tables(document, out / name, say)
    except OSError as error:
        raise BadRequest(
            f"Cannot write the report to {out}: {error.strerror}.", "Name another place with --out."
        ) from error
    return tuple(made)


def _write_pdf(document: Document, path: Path, formats: Sequence[str], say: Say) -> list[Path]:
    from scalewise.report.pdf import pdf_bytes

    say(f"setting {path.name}")
    try:
        content = pdf_bytes(document, say)
    except BadRequest as missing:
        if len(formats) == 1:
            raise
        say(f"no {path.name}: {missing.sentence} {missing.hint}")
        return []
    _replace(path, content)
    return [path]


def _write_html(document: Document, raw_rows: tuple[Path, Path] | None, path: Path, say: Say) -> list[Path]:
    from scalewise.report.html import html_text

    say(f"writing {path.name}")
    _replace(path, html_text(document, raw_rows).encode())
    return [path]


def _write_tables(document: Document, folder: Path, say: Say) -> list[Path]:
    from scalewise.report.tables import table_files

    folder.mkdir(exist_ok=True)
    files = table_files(document)
    for name, text in files.items():
        _replace(folder / name, text.encode())
    say(f"{len(files)} files of tables in {folder}")
    return [folder]


def _replace(path: Path, content: bytes) -> None:
    """Replaces the file at once, so that a reader never sees half a file."""
    aside = path.with_name(f".{path.name}.part")
    aside.write_bytes(content)
    aside.replace(path)


def showable(document: Document, say: Say) -> Document:
    """Returns the document with a sentence for each figure that cannot be drawn or table whose rows do not fit."""
    sections = tuple(
        replace(section, blocks=tuple(_shown(block, say) for block in section.shown_on("page")))
        for section in document.sections
    )
    return replace(document, sections=sections)


def _shown(block: Block, say: Say) -> Block:
    why = _table_trouble(block) if isinstance(block, Table) else _figure_trouble(block)
    if not why or not isinstance(block, (Table, Figure)):
        return block
    what = "table" if isinstance(block, Table) else "figure"
    say(f"{what} {block.id} could not be shown: {why}")
    return Paragraph(f"A {what} is missing here ({block.title or block.id}): {why}.")


def _table_trouble(table: Table) -> str:
    lengths = {len(row) for row in table.rows} - {len(table.columns)}
    return f"rows of {min(lengths)} cells under {len(table.columns)} columns" if lengths else ""


def _figure_trouble(block: Block) -> str:
    if not isinstance(block, Figure):
        return ""
    from scalewise.report.draw import draw

    try:
        draw(block)
    except Exception as error:  # whatever is wrong with a plot, the rest of the report is made
        return f"{type(error).__name__}: {error}"
    return ""
