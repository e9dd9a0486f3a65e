"""Writes reports: a suite's folder in; PDF, HTML, and each table as CSV and Markdown out."""

from collections.abc import Sequence
from pathlib import Path

from scalewise.errors import BadRequest, did_you_mean
from scalewise.records.folder import RunFolder, SuiteFolder
from scalewise.report.document import Document
from scalewise.report.gather import Say, document_of, evidence_of

FORMATS = ("pdf", "html", "tables")
DEFAULT_OUT = Path("reports")


def _silent(_: str) -> None:
    """For callers that have nobody to tell."""


def write_report(
    folder: Path, out: Path | None = None, formats: Sequence[str] = FORMATS, say: Say = _silent
) -> tuple[Path, ...]:
    """The files of one suite's report; what could not be made is said, and named in the report."""
    return write_document(*_gathered(folder, say), out or DEFAULT_OUT, formats, say)


def write_reports(
    folders: Sequence[Path], out: Path | None = None, formats: Sequence[str] = FORMATS, say: Say = _silent
) -> tuple[Path, ...]:
    """One report each; of two suites with the same name, the later keeps its folder's name."""
    place = out or DEFAULT_OUT
    made: list[Path] = []
    taken: set[str] = set()
    for folder in folders:
        document, path = _gathered(folder, say)
        if document.id in taken:
            document = Document(**{**vars(document), "id": path.name})
        taken.add(document.id)
        made += write_document(document, path, place, formats, say)
    return tuple(made)


def suite_folders(path: Path) -> tuple[Path, ...]:
    """The folder itself where it holds runs, else the suites in it."""
    if RunFolder(path).spec.is_file() or not path.is_dir() or SuiteFolder(path).runs():
        return (path,)
    found = [one for one in sorted(path.iterdir()) if one.is_dir() and SuiteFolder(one).runs()]
    return tuple(found) or (path,)


def parse_formats(text: str) -> tuple[str, ...]:
    """`pdf,html` as a person writes it."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    unknown = [word for word in words if word not in FORMATS]
    if unknown or not words:
        near = did_you_mean(unknown[0], FORMATS) if unknown else ""
        raise BadRequest(
            f"{', '.join(map(repr, unknown)) or 'Nothing'} is not a format of reports.",
            f"{near} Formats are {', '.join(FORMATS)}.".strip(),
        )
    return tuple(dict.fromkeys(words))


def _gathered(folder: Path, say: Say) -> tuple[Document, Path]:
    path = folder.resolve()
    return document_of(evidence_of(path), say), path


def write_document(document: Document, runs: Path, out: Path, formats: Sequence[str], say: Say) -> tuple[Path, ...]:
    """The files of a document whose raw rows lie under `runs`."""
    from scalewise.report.sound import sound
    from scalewise.report.tables import file_name

    document = sound(document, say)
    name = file_name(document.id)
    made: list[Path] = []
    try:
        out.mkdir(parents=True, exist_ok=True)
        if "pdf" in formats:
            made += _write_pdf(document, out / f"{name}.pdf", formats, say)
        if "html" in formats:
            made += _write_html(document, runs, out / f"{name}.html", say)
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


def _write_html(document: Document, runs: Path, path: Path, say: Say) -> list[Path]:
    from scalewise.report.html import html_text

    say(f"writing {path.name}")
    _replace(path, html_text(document, runs, path.parent.resolve()).encode())
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
    """A reader never sees half a file."""
    aside = path.with_name(f".{path.name}.part")
    aside.write_bytes(content)
    aside.replace(path)
