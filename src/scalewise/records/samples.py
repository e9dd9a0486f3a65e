"""Counts the samples of a step from the calls of the trained modules and from what the DataLoaders delivered.

The rows of a module's input are the samples of a backward pass, and several passes add up. If one module is called
several times before one backward pass, the calls may see the same samples (a siamese network, a network unrolled over
time) or different ones (parts of a batch). The batches of a DataLoader can tell, or another module that is called once
(an encoder before its decoder, a generator before its critic); without them the number is unknown. For a batch that
shows no rows, such as one of graphs, the samples drawn for it count.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

# Reasons why the samples of a step are not known. `{module}` is the module that was called.
REASONS = {
    "no call": "no call of a module with trained parameters was seen in a step (it is hidden in compiled code, or the "
    "script computes with plain tensors)",
    "no rows": "the input of {module} holds no tensor with a first dimension",
    "several calls": "{module} is called several times before one backward pass, and no batch of a DataLoader tells "
    "whether the calls see the same samples",
}


@dataclass(frozen=True)
class Call:
    """A call of a module that is trained, from outside all modules."""

    time_ns: int
    root: int | None  # number of the module; None in files that do not name it
    rows: int | None


@dataclass
class Pass:
    """The calls and batches before one backward pass, since the pass before it."""

    calls: list[Call] = field(default_factory=list)
    fed: list[int | None] = field(default_factory=list)  # rows of calls whose detached result only feeds other calls
    batches: list[int] = field(default_factory=list)  # rows of each batch that a DataLoader delivered
    drawn: list[int] = field(default_factory=list)  # samples of each batch whose rows cannot be seen
    in_optimizer: bool = False  # made by a closure, which computes the same loss again and again


@dataclass(frozen=True)
class Counted:
    """The samples of a step, or the reason why they are not known."""

    samples: int | None
    root: int | None  # number of the module at whose input they were counted
    unknown: str = ""  # a key of `REASONS`


def count_samples(passes: Sequence[Pass]) -> Counted:
    """Adds up the samples of a step's passes; passes that see the same batch again count once."""
    batches = [rows for one in passes for rows in one.batches]
    counted = [_of_pass(one, batches) for one in passes if one.calls and not one.in_optimizer]
    closures = [_of_pass(one, batches) for one in passes if one.calls and one.in_optimizer]
    counted += closures[:1]
    if not counted:
        return Counted(None, None, "no call")
    unknown = next((one for one in counted if one.samples is None), None)
    if unknown is not None:
        return unknown
    samples = [one.samples or 0 for one in counted]
    again = len(batches) == 1 and all(rows == batches[0] for rows in samples)
    return Counted(batches[0] if again else sum(samples), counted[0].root)


def _of_pass(one: Pass, batches_of_step: Sequence[int]) -> Counted:
    calls = [(call.root, call.rows) for call in one.calls if call.rows is not None]
    if not calls:
        return Counted(None, one.calls[0].root, "no rows")
    times = Counter(root for root, _ in calls if root is not None)
    root = max(times, key=lambda root: times[root], default=None)
    if root is None or times[root] == 1:
        first, drawn = calls[0][1] or 0, sum(one.drawn)
        # A batch of graphs: the module's rows are their nodes.
        return Counted(drawn if 0 < drawn < first and not one.batches else first, calls[0][0])
    rows = [rows or 0 for number, rows in calls if number == root]
    batches = one.batches or batches_of_step
    if sum(rows) == sum(batches):
        return Counted(sum(rows), root)
    called_once = [rows for number, rows in calls if number is not None and times[number] == 1]
    if len(set(rows)) == 1 and rows[0] in (*batches, *called_once, *one.fed):
        return Counted(rows[0], root)
    return Counted(None, root, "several calls")
