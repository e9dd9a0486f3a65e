"""From a suite's folder to a document: evidence, the sections that know the suite, and what could not be made."""

import importlib
import pkgutil
import traceback
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

from scalewise.analysis.inspection import inspections_of
from scalewise.analysis.summary import summarise
from scalewise.explain.evidence import Evidence
from scalewise.records.machine import MachineFacts
from scalewise.report import sections
from scalewise.report.document import Document, Paragraph, Section
from scalewise.results.load import load
from scalewise.results.run import LoadedSuite
from scalewise.units import bytes_text

ANY_SUITE = "*"  # for every suite that has no sections of its own
EVERY_SUITE = "**"
MOST_PAGES = {"homework1": 4, "homework2": 2, "homework3": 2, "practical7": 2}  # the course's limits

Say = Callable[[str], None]


def evidence_of(folder: Path) -> Evidence:
    """Everything that the folder shows; what is missing is left out."""
    loaded = load(folder)
    machine = next((run.machine for run in loaded.runs if run.machine is not None), None)
    return Evidence(loaded, summarise(loaded), inspections_of(loaded.runs), machine)


def document_of(evidence: Evidence, say: Say) -> Document:
    """The report as values; a section that cannot be made is a named hole in it."""
    loaded = evidence.loaded
    found = tuple(section for module in section_modules(loaded.name) for section in _built(module, evidence, say))
    return Document(
        id=loaded.name or "report",
        title=loaded.title or f"{loaded.name}: what was measured",
        subtitle=_subtitle(loaded, evidence.machine),
        sections=found,
        most_pages=MOST_PAGES.get(loaded.name),
    )


def section_modules(suite: str) -> tuple[ModuleType, ...]:
    """The suite's own sections, or those for any suite; and those for every one. In their order."""
    names = sorted(one.name for one in pkgutil.iter_modules(sections.__path__))
    modules = [importlib.import_module(f"{sections.__name__}.{name}") for name in names]
    offered = [module for module in modules if hasattr(module, "SUITES")]
    own = [module for module in offered if suite in module.SUITES]
    chosen = own or [module for module in offered if ANY_SUITE in module.SUITES]
    always = [module for module in offered if EVERY_SUITE in module.SUITES]
    return tuple(sorted([*chosen, *always], key=lambda module: (module.ORDER, module.__name__)))


def _built(module: ModuleType, evidence: Evidence, say: Say) -> Iterator[Section]:
    name = module.__name__.rpartition(".")[2]
    try:
        built: Section | Sequence[Section] | None = module.build(evidence)
    except Exception as error:  # one broken section must not cost the others
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


def _subtitle(loaded: LoadedSuite, machine: MachineFacts | None) -> str:
    parts = [machine_line(machine)] if machine else ["machine not recorded"]
    times = [at for run in loaded.runs if (at := run.started_unix_seconds) is not None]
    if times:
        first, last = (datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d") for at in (min(times), max(times)))
        parts.append(f"measured {first}" if first == last else f"measured {first} to {last}")
    return " · ".join(parts)


def machine_line(machine: MachineFacts) -> str:
    """The machine in one line."""
    gpus = [gpu.name for gpu in machine.gpus]
    kinds = [f"{gpus.count(name)} × {name}" for name in dict.fromkeys(gpus)] or ["no GPU"]
    cores = f"{len(machine.cores)} core{'' if len(machine.cores) == 1 else 's'}"
    torch = f"torch {machine.versions['torch']}" if "torch" in machine.versions else ""
    parts = (f"{machine.cpu_model}, {cores}", bytes_text(machine.memory_bytes), *kinds, torch)
    return " · ".join(filter(None, parts))
