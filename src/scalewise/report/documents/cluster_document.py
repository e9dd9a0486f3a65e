"""The document of a cluster: for each model what larger placements would take, and how far that is to be believed."""

from collections.abc import Iterator, Sequence
from math import floor

from scalewise.predict.cluster_answer import ClusterAnswer, ModelAnswer, PlacementRow, believed_text, falls_text
from scalewise.predict.prediction import LEVEL
from scalewise.report.cells import interval_cell, number_cell
from scalewise.report.document import EMPTY, Cell, Column, Document, Mark, Paragraph, Section, Table
from scalewise.units import counted, seconds_text, significant

MOST_BATCHES = 2  # of a model, in words: the smallest and the largest; the others are in the JSON
MARKS: tuple[tuple[Mark, str], ...] = (("predicted*", "rests on guesses, which are told at the end"),)
COLUMNS = (
    Column("GPUs"),
    Column("nodes", numeric=False),
    Column("step", "ms"),
    Column("samples/s", within="none", extra=1),
    Column("efficiency", "%"),
    Column("of it waiting", "%", within="none", extra=2),
    Column("quicker", "%", short="quicker %", extra=1),
)


def cluster_document(answer: ClusterAnswer) -> Document:
    """Returns the whole answer; of a model with many batches the smallest and the largest one."""
    sections = [Section("setting", "", tuple(map(Paragraph, _setting(answer))))]
    shown = list(_shown(answer.models))
    for number, model in enumerate(shown):
        title = f"{model.model}, {model.local_batch:g} samples a GPU"
        if len(answer.fits) > 1:
            title += f", {model.cluster}"
        blocks = (_table(model, number, answer), Paragraph(_verdict(model)), Paragraph(falls_text(model)))
        sections.append(Section(f"model-{number}", title, blocks))
    if len(shown) < len(answer.models):
        left = counted(len(answer.models) - len(shown), "more batch")
        said = f"{left} were predicted: choose one with --local-batch, or see all with --json."
        sections.append(Section("more", "", (Paragraph(said),)))
    sections.append(
        Section("believed", "How far to believe it", tuple(Paragraph(believed_text(fit)) for fit in answer.fits))
    )
    guesses = tuple(Paragraph(guess, "Guess") for guess in answer.guesses)
    if guesses:
        sections.append(Section("rests", "What this rests on", guesses))
    return Document(
        "extrapolate", f"Larger placements, from {answer.source}", (), tuple(sections), made_by="scalewise extrapolate"
    )


def _setting(answer: ClusterAnswer) -> Iterator[str]:
    for fit in answer.fits:
        laws = fit.laws.values()
        rows = sum(len(law.measured.steps) for law in laws)
        nodes = int(max(law.measured.shape.nodes.max() for law in laws))
        gpus = int(max(law.measured.most_gpus for law in laws))
        yield (
            f"{fit.cluster}: {counted(rows, 'measured step')} of {counted(len(fit.laws), 'model')}, on up to "
            f"{counted(nodes, 'node')} and {counted(gpus, 'GPU')}. Each GPU keeps its batch."
        )


def _shown(models: Sequence[ModelAnswer]) -> Iterator[ModelAnswer]:
    for key in dict.fromkeys((one.cluster, one.model) for one in models):
        own = [one for one in models if (one.cluster, one.model) == key]
        yield from own if len(own) <= MOST_BATCHES else (own[0], own[-1])


def _table(model: ModelAnswer, number: int, answer: ClusterAnswer) -> Table:
    """A row for one GPU, one for the largest placement that was measured, and one for each that is predicted."""
    mark: Mark = "predicted*" if answer.guesses else "predicted"
    alone: Mark = "measured" if model.alone_measured else mark
    rows = [_seen("1", "1", 1, model.alone_seconds, model, alone)]
    if model.anchor_seconds is not None and model.anchor.gpus > 1:
        gpus = model.anchor.gpus
        rows.append(_seen(str(gpus), f"{model.anchor.nodes}", gpus, model.anchor_seconds, model, "measured"))
    rows += [_cells(row, mark) for row in model.rows]
    caption = (
        "Rows without a mark were measured. Quicker: how certain it is that a row gives more samples per second than "
        "the one above."
    )
    return Table(f"extrapolate-{number}", "Each placement", COLUMNS, tuple(rows), caption=caption, marks=MARKS)


def _seen(gpus: str, nodes: str, count: int, seconds: float, model: ModelAnswer, mark: Mark) -> tuple[Cell, ...]:
    return (
        Cell(gpus, float(count)),
        Cell(nodes),
        number_cell(seconds, 1e3, mark=mark),
        number_cell(count * model.local_batch / seconds, mark=mark),
        number_cell(model.alone_seconds / seconds, 100, mark=mark),
        Cell(EMPTY),
        Cell(EMPTY),
    )


def _cells(row: PlacementRow, mark: Mark) -> tuple[Cell, ...]:
    found = row.predicted
    step, share = found.step, row.efficiency
    placement = found.placement
    even = len(set(placement.per_node)) == 1
    waiting = found.exposed_seconds / found.step.value
    return (
        Cell(str(placement.gpus), float(placement.gpus)),
        Cell(str(placement.nodes) if even else "+".join(map(str, placement.per_node))),
        interval_cell(step.value * 1e3, step.low * 1e3, step.high * 1e3, level=LEVEL, mark=mark),
        Cell(significant(found.samples_per_second), found.samples_per_second, mark=mark),
        interval_cell(share.value * 100, share.low * 100, share.high * 100, level=LEVEL, mark=mark),
        Cell(f"{100 * waiting:.0f}", 100 * waiting, mark=mark),
        _certain(row.quicker, mark),
    )


def _certain(probability: float | None, mark: Mark) -> Cell:
    if probability is None:
        return Cell(EMPTY)
    percent = 100 * probability
    return Cell("> 99" if percent > 99 else f"{floor(percent)}", percent, mark=mark)


def _verdict(model: ModelAnswer) -> str:
    """The sentence that compares the largest placement with one GPU."""
    last = model.rows[-1]
    found = last.predicted
    low, high = (100 * end for end in (last.efficiency.low, last.efficiency.high))
    return (
        f"{found.placement.text}: a step of {seconds_text(found.step.value)}, at an efficiency of "
        f"{100 * last.efficiency.value:.0f} % [{low:.0f}, {high:.0f}] of one GPU."
    )
