"""P7.5: accumulation and mixed precision side by side."""

from scalewise.explain.arms import asked_notes, hole, usable
from scalewise.explain.evidence import Evidence
from scalewise.explain.practical7.p7_5_comparison import ACCUMULATION, BASE, MIXED, TABLE, answers, effects
from scalewise.report.cells import text_cell
from scalewise.report.document import Column, Section, Table

SUITES = ("practical7",)
ORDER = 30


def build(evidence: Evidence) -> Section:
    """The table of the course and its three questions."""
    return Section("p7-5", "The two compared", (table(evidence), *answers(evidence)))


def table(evidence: Evidence) -> Table:
    """Goal, effect on memory, on speed, on communication."""
    both = effects(evidence)
    goals = ("a large batch in the memory of a small one, with fewer synchronisations", "cheaper arithmetic")
    rows = (
        ("Goal", *goals),
        ("Effect on memory", *(one.memory_text for one in both)),
        ("Effect on speed", *(one.speed_text for one in both)),
        ("Effect on communication", *(one.communication_text for one in both)),
    )
    missing = [
        hole(evidence, name, **axes) for name, axes in (BASE, ACCUMULATION, MIXED) if not usable(evidence, name, **axes)
    ]
    return Table(
        id=TABLE,
        title="Both against plain float32 DDP with the same global batch",
        columns=tuple(Column(name, numeric=False) for name in ("", "Accumulation (Code 1)", "AMP, float16 (Code 2)")),
        rows=tuple(tuple(text_cell(text) for text in row) for row in rows),
        notes=(*missing, *asked_notes(evidence, "amp", "no-sync")),
    )
