"""Turns a suite's folder into a document: evidence, the sections for the suite, and what could not be made."""

import importlib
import pkgutil
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.inspected_run import inspections_of
from scalewise.analysis.summary import summarise
from scalewise.records.load import LoadedSuite, load
from scalewise.records.machine import MachineFacts
from scalewise.report import sections
from scalewise.report.document import Document, Paragraph, Section, Summary, TitleBlock
from scalewise.units import bytes_text

Say = Callable[[str], None]


@dataclass(frozen=True)
class SuitePages:
    """The own parts of a suite's report: its section modules, the page limit, its summary and closing."""

    modules: tuple[ModuleType, ...] = ()
    most_pages: int | None = None
    summary: Callable[[Evidence, Sequence[Section]], Summary] | None = None
    closing: Callable[[Evidence, Sequence[Section]], Section | None] | None = None  # follows all other sections


PagesOf = Callable[[str], SuitePages]  # takes the suite's name


def no_pages(_: str) -> SuitePages:
    """Returns an empty SuitePages for any suite, so that the general sections are used."""
    return SuitePages()


def evidence_of(folder: Path) -> Evidence:
    """Returns everything that the folder shows; what is missing is left out."""
    loaded = load(folder)
    machine = next((run.machine for run in loaded.runs if run.machine is not None), None)
    return Evidence(loaded, summarise(loaded), inspections_of(loaded.runs), machine)


def document_of(evidence: Evidence, say: Say, pages_of: PagesOf = no_pages) -> Document:
    """Returns the report as values; a section that cannot be made is replaced by a sentence that says so."""
    loaded = evidence.loaded
    own = pages_of(loaded.name)
    found = tuple(section for module in section_modules(own) for section in _built(module, evidence, say))
    last = own.closing(evidence, found) if own.closing else None
    found = (*found, last) if last else found
    return Document(
        id=loaded.name or "report",
        title=loaded.title or f"{loaded.name}: what was measured",
        subtitle=_subtitle(loaded, evidence.machine),
        sections=found,
        most_pages=own.most_pages,
        title_block=_title_block(loaded, evidence.machine) if own.modules else None,
        summary=_summed_up(own, evidence, found, say),
    )


def _title_block(loaded: LoadedSuite, machine: MachineFacts | None) -> TitleBlock:
    """Returns the title block without an author, whom the caller adds."""
    return TitleBlock(date=_dates(loaded), machine=" · ".join(machine_parts(machine)) if machine else "")


def _summed_up(own: SuitePages, evidence: Evidence, found: Sequence[Section], say: Say) -> Summary | None:
    if own.summary is None:
        return None
    try:
        return own.summary(evidence, found)
    except Exception as error:  # a report without its summary is still useful
        say(f"the summary could not be made: {_told(error)}")
        return None


def section_modules(own: SuitePages) -> tuple[ModuleType, ...]:
    """Returns the suite's own section modules, or the general ones, in their order."""
    names = sorted(one.name for one in pkgutil.iter_modules(sections.__path__))
    modules = (importlib.import_module(f"{sections.__name__}.{name}") for name in names)
    chosen = own.modules or tuple(module for module in modules if hasattr(module, "build"))
    return tuple(sorted(chosen, key=lambda module: (module.ORDER, module.__name__)))


def _built(module: ModuleType, evidence: Evidence, say: Say) -> Iterator[Section]:
    name = module.__name__.rpartition(".")[2]
    try:
        built: Section | Sequence[Section] | None = module.build(evidence)
    except Exception as error:  # one broken section must not prevent the others
        say(f"section {name} could not be made: {_told(error)}")
        text = f"This section could not be made from these runs: {type(error).__name__}: {error}."
        yield Section(name, name.replace("_", " ").capitalize(), (Paragraph(text),))
        return
    if isinstance(built, Section):
        yield built
    else:
        yield from built or ()


def _told(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"


def _subtitle(loaded: LoadedSuite, machine: MachineFacts | None) -> tuple[str, ...]:
    dates = _dates(loaded)
    parts = machine_parts(machine) if machine else ("machine not recorded",)
    return (*parts, *([f"measured {dates}"] if dates else []))


def _dates(loaded: LoadedSuite) -> str:
    """Returns `2026-11-18`, or `2026-11-17 to 2026-11-18`; empty if no run says when it was made."""
    times = [at for run in loaded.runs if (at := run.started_unix_seconds) is not None]
    if not times:
        return ""
    first, last = (datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d") for at in (min(times), max(times)))
    return first if first == last else f"{first} to {last}"


def machine_parts(machine: MachineFacts) -> tuple[str, ...]:
    """Returns the machine: processor, memory, GPUs, torch."""
    gpus = [gpu.name for gpu in machine.gpus]
    kinds = [f"{gpus.count(name)} × {name}" for name in dict.fromkeys(gpus)] or ["no GPU"]
    cores = f"{len(machine.cores)} core{'' if len(machine.cores) == 1 else 's'}"
    torch = f"torch {machine.versions['torch']}" if "torch" in machine.versions else ""
    parts = (f"{machine.cpu_model}, {cores}", bytes_text(machine.memory_bytes), *kinds, torch)
    return tuple(filter(None, parts))
