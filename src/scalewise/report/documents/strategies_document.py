"""Makes the document of a comparison of strategies: which is best, one row for each, and what each needs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from scalewise.agreement.strategy_table import StrategiesAnswer, StrategyRow
from scalewise.report.cells import count_cell, empty_cell, estimate_cell, number_cell, text_cell
from scalewise.report.document import Block, Cell, Column, Document, Facts, Mark, Paragraph, Section, Table, Tone
from scalewise.units import counted, one_sentence

_WORDS = {"same": "same", "differs": "differs", "untold": "untold"}
_SMALLEST_PART = 0.005  # of the peak: what is less has no column


def strategies_document(answer: StrategiesAnswer) -> Document:
    """Returns the whole answer."""
    sections = [Section("verdict", "", tuple(_verdict(answer))), Section("table", "", (_table(answer),))]
    if answer.predicted:
        sections.append(Section("predicted", "Predicted", tuple(_predicted(answer))))
    memory = _memory(answer.rows)
    if memory is not None:
        sections.append(Section("memory", "Memory of the rank that holds most", (memory,)))
    for name, title, blocks in (
        ("parity", "What is not the same as on one rank", _parity(answer.rows)),
        ("missing", "Without numbers", _missing(answer.rows)),
        ("how", "How it was measured", _how(answer)),
    ):
        found = tuple(blocks)
        if found:
            sections.append(Section(name, title, found))
    subtitle = tuple(filter(None, (" ".join(answer.args), f"{counted(answer.ranks, 'rank')}, {answer.device}")))
    return Document(
        "strategies", answer.script, subtitle, tuple(sections), made_by="scalewise strategies", numbered=False
    )


def _verdict(answer: StrategiesAnswer) -> Iterator[Block]:
    found = any(row.change and row.kind == "measured" for row in answer.rows)
    for number, sentence in enumerate(answer.sentences):
        tone: Tone = "good" if found and not number else "plain"
        yield Paragraph(sentence, tone=tone)


def _table(answer: StrategiesAnswer) -> Table:
    measured = [row for row in answer.rows if row.kind == "measured"]
    piped = any(row.bubble is not None for row in measured)
    columns = [
        Column("strategy", numeric=False),
        Column("step", "ms"),
        Column("throughput", "samples/s", short="samples/s", within="none"),
        Column("speedup", within="none"),
        Column("memory", "MiB"),
        Column("sent", "MiB", short="MiB sent", extra=2),
        Column("exposed communication", "ms", short="comm.", within="none", extra=1),
        *([Column("bubble", "%", extra=3)] if piped else []),
        Column("parity", numeric=False),
    ]
    rows = tuple(tuple(_cells(row, piped)) for row in answer.rows if row.kind == "measured")
    notes = (
        f"All rows have the batch that one rank has. Step: median of {counted(answer.repeats, 'run')} of at most "
        f"{answer.steps} steps, with its 95 % interval. Memory: tensors at the peak of an inspected step, of the rank "
        "that holds most. Sent: bytes of a step that rank 0 sends, if collectives go around a ring. "
        "Samples/s: over the whole loop, with what lies between steps.",
        *(f"Communication by: {text}." for text in _methods(measured)),
    )
    return Table("strategies", "Each strategy", tuple(columns), rows, notes)


def _methods(rows: Sequence[StrategyRow]) -> list[str]:
    by: dict[str, list[str]] = {}
    for row in rows:
        if row.exposed is not None:
            by.setdefault(row.exposed_method, []).append(row.name)
    return [f"{method} ({', '.join(names)})" for method, names in by.items()]


def _cells(row: StrategyRow, piped: bool) -> Iterator[Cell]:
    yield text_cell(row.name)
    yield estimate_cell(row.step, 1e3)
    yield estimate_cell(row.samples_per_second)
    yield estimate_cell(row.speedup) if row.change else text_cell("base")
    yield _memory_cell(row)
    yield number_cell(row.sent_bytes, 2.0**-20)
    yield _exposed_cell(row)
    if piped:
        yield number_cell(row.bubble, 100.0)
    yield _parity_cell(row)


def _memory_cell(row: StrategyRow) -> Cell:
    """The peak; of sharded tensors only what is known of it, which is less."""
    if row.peak_bytes is not None or not row.memory:
        return number_cell(row.peak_bytes, 2.0**-20)
    known = number_cell(sum(row.memory.values()), 2.0**-20, note="weights, gradients and state, without activations")
    return replace(known, text=f"> {known.text}")


def _exposed_cell(row: StrategyRow) -> Cell:
    """The time of communication; a difference of steps below zero is none that was seen."""
    if row.exposed is None or row.exposed.value > 0:
        return estimate_cell(row.exposed, 1e3)
    return replace(estimate_cell(row.exposed, 1e3), text="0", number=0.0)


def _parity_cell(row: StrategyRow) -> Cell:
    if not row.change:
        return text_cell("base")
    if row.parity is None:
        return empty_cell("not compared")
    at = f" from step {row.parity.step}" if row.parity.step is not None else ""
    return text_cell(f"{_WORDS[row.parity.kind]}{at}", note=row.parity.sentence)


def _predicted(answer: StrategiesAnswer) -> Iterator[Block]:
    columns = (
        Column("ranks"),
        Column("strategy", numeric=False),
        Column("step", "ms"),
        Column("throughput", "samples/s", short="samples/s", within="none"),
        Column("bound by", numeric=False, extra=2),
        Column("memory", "MiB"),
        *([Column("fits", numeric=False)] if answer.memory_bytes else []),
    )
    known = sorted(
        (row for row in answer.predicted if row.step is not None),
        key=lambda row: (row.ranks, row.step.value if row.step is not None else 0.0),
    )
    rows = []
    for row in known:
        mark: Mark = "predicted*" if row.guesses else "predicted"
        cells = [
            count_cell(row.ranks),
            text_cell(row.name),
            estimate_cell(row.step, 1e3, mark=mark),
            estimate_cell(row.samples_per_second, mark=mark),
            text_cell(row.bound, mark=mark),
            number_cell(row.peak_bytes, 2.0**-20, mark=mark),
        ]
        if answer.memory_bytes:
            cells.append(text_cell({True: "yes", False: "no", None: "not known"}[row.fits], mark=mark))
        rows.append(tuple(cells))
    note = (
        f"Link: {answer.link}. Each strategy ran as one of so many ranks that sends nothing, with its share of the "
        "batch of one rank; its messages are laid on the link. Memory: the peak of that process."
    )
    if rows:
        marks: tuple[tuple[Mark, str], ...] = (("predicted*", "rests on guesses, which are told below"),)
        yield Table("strategies-predicted", "Each strategy on more ranks", columns, tuple(rows), (note,), marks=marks)
    for text, where in _grouped(
        (row.reason, f"{row.name}, {row.ranks} ranks") for row in answer.predicted if row.reason
    ):
        yield Paragraph(f"{text}.", where)
    guesses = list(dict.fromkeys(guess for row in known for guess in row.guesses))
    if guesses:
        yield Paragraph(f"{'; '.join(guesses)}.", "Guessed")


def _grouped(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yields each text once, with all places where it holds."""
    by: dict[str, list[str]] = {}
    for text, where in pairs:
        by.setdefault(text, []).append(where)
    return ((text, "; ".join(places)) for text, places in by.items())


def _memory(rows: Sequence[StrategyRow]) -> Table | None:
    known = [row for row in rows if row.memory]
    if not known:
        return None
    parts = [
        name
        for name in (known[0].memory or {})
        if any((row.memory or {}).get(name, 0) > _SMALLEST_PART * (row.peak_bytes or 1) for row in known)
    ]
    columns = (Column("strategy", numeric=False), *(Column(name) for name in parts))
    cells = tuple(
        (text_cell(row.name), *(number_cell((row.memory or {}).get(name), 2.0**-20) for name in parts)) for row in known
    )
    return Table("strategies-memory", "Memory by purpose, in MiB", columns, cells)


def _parity(rows: Sequence[StrategyRow]) -> Iterator[Block]:
    told = [(row, row.parity) for row in rows if row.parity is not None and row.parity.kind != "same"]
    for _, one in told:
        if one.kind == "differs":
            because = f" Cause: {one.cause.name}." if one.cause is not None else ""
            yield Paragraph(f"{one.sentence}{because}")
    causes = {one.cause.name: one.cause for _, one in told if one.cause is not None}
    for name, cause in causes.items():
        proof = f" With {cause.change} applied from outside, it is the same." if cause.change else ""
        yield Paragraph(f"{cause.sentence}.{proof}", name)
    for text, where in _grouped((one.sentence, row.name) for row, one in told if one.kind == "untold"):
        yield Paragraph(one_sentence(text), where)


def _missing(rows: Sequence[StrategyRow]) -> Iterator[Block]:
    for text, where in _grouped((row.reason, row.name) for row in rows if row.kind == "abstained"):
        yield Paragraph(f"not applied, because {text}.", where)
    for row in rows:
        if row.kind == "failed":
            yield Paragraph(f"failed: {row.reason}.", row.name, tone="wrong")


def _how(answer: StrategiesAnswer) -> Iterator[Block]:
    yield from map(Paragraph, answer.notes)
    doubts = list(dict.fromkeys(one for row in answer.rows for one in row.doubts))
    if doubts:
        yield Paragraph(f"{doubts[0]}; {counted(len(doubts), 'row')} in doubt. Repeat it on a quiet machine.", "Doubt")
    yield Paragraph(f"All runs took {answer.seconds:.0f} s.")
    if answer.folder:
        yield Facts((("runs", answer.folder),))
