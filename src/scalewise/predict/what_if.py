"""Makes variants of a rehearsed step: among more ranks, with another batch, accumulation or bucket size."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from scalewise.predict.compute_work import WorkLine, samples_of
from scalewise.predict.tape import Compute, Entry, Issue, Tape, Wait
from scalewise.records.collectives import kinds_carrying

OF_GRADIENTS = kinds_carrying("gradients")
OF_ACTIVATIONS = kinds_carrying("activations")


def among(tape: Tape, ranks: int) -> Tape:
    """The same work of one rank with another number of ranks; groups of some of them stay as large as they are."""
    entries = [
        replace(one, ranks=ranks) if isinstance(one, Issue) and one.ranks in (0, tape.ranks) else one
        for one in tape.entries
    ]
    return replace(tape, entries=tuple(entries), ranks=ranks)


def with_batch(tape: Tape, factor: float, line: WorkLine) -> Tape:
    """The step with every micro-batch `factor` times as large."""
    samples = samples_of(tape)
    known = len(line.messages) == len(tape.messages)
    longer = tape.scaled(line.factors(samples, factor))

    def resized(message: Issue, at: int) -> Issue:
        if known:
            return replace(message, size_bytes=message.size_bytes * line.message_factor(at, samples, factor))
        grows = message.kind in OF_ACTIVATIONS
        return replace(message, size_bytes=message.size_bytes * factor) if grows else message

    entries = _each_message(longer.entries, resized)
    return replace(tape, entries=entries, samples=None if tape.samples is None else tape.samples * factor)


def with_accumulation(tape: Tape, factor: int) -> Tape | None:
    """The step with `factor` times the micro-batches, gradients sent as the script does; None if it cannot be made."""
    found = _first_micro_batch(tape) if tape.steps == 1 else None
    if found is None:
        return None
    begin, end, last = found
    piece = tape.entries[begin:end]
    if last:
        of_gradients = {one.number for one in _gradients(tape)}
        piece = tuple(one for one in piece if isinstance(one, Compute) or one.number not in of_gradients)
    copies = (factor - 1) * max(1, tape.micro_batches)
    entries: list[Entry] = list(tape.entries[:begin])
    numbers = max((one.number for one in tape.messages), default=-1) + 1
    for copy in range(copies):
        entries += [_renumbered(one, (copy + 1) * numbers) for one in piece]
    entries += tape.entries[begin:]
    return replace(
        tape,
        entries=tuple(entries),
        samples=None if tape.samples is None else tape.samples * factor,
        micro_batches=max(1, tape.micro_batches) * factor,
    )


def with_smaller_gradients(tape: Tape, factor: float) -> Tape:
    """The step with gradient messages `factor` times as large; the cost of converting gradients is not included."""
    grads = set(_gradients(tape))
    return replace(
        tape,
        entries=_each_message(
            tape.entries,
            lambda message, _: (
                replace(message, size_bytes=message.size_bytes * factor) if message in grads else message
            ),
        ),
    )


def bucket_bytes(tape: Tape) -> tuple[float, ...]:
    """The sizes of the messages in which backward passes send gradients, in their order."""
    return tuple(one.size_bytes for one in _gradients(tape, inside=True))


def groups_by_cap(sizes: Sequence[float], cap_bytes: float) -> tuple[int, ...]:
    """The number of gradients in each bucket when DDP closes a bucket as soon as it holds `cap_bytes`."""
    groups, count, held = [], 0, 0.0
    for size in sizes:
        count, held = count + 1, held + size
        if held >= cap_bytes:
            groups.append(count)
            count, held = 0, 0.0
    return (*groups, count) if count else tuple(groups)


def groups_like(sizes: Sequence[float], buckets: Sequence[float]) -> tuple[int, ...]:
    """The number of gradients in each of these buckets."""
    groups, at, held = [], 0, 0.0
    for bucket in buckets:
        begin, held = at, held + bucket
        while at < len(sizes) and sum(sizes[: at + 1]) <= held * (1 + 1e-6):
            at += 1
        groups.append(at - begin)
    if at < len(sizes):
        groups[-1] += len(sizes) - at
    return tuple(count for count in groups if count)


def grouped_bytes(sizes: Sequence[float], groups: Sequence[int]) -> tuple[float, ...]:
    """The sizes of the buckets, given the number of gradients in each."""
    ends = list(accumulate(groups))
    return tuple(sum(sizes[end - count : end]) for end, count in zip(ends, groups, strict=True))


def regrouped(tape: Tape, groups: Sequence[int]) -> Tape:
    """The step with the gradients of a tape with small buckets packed into larger ones, each sent when complete."""
    grads = _gradients(tape, inside=True)
    bucket_of: dict[int, int] = {}
    for bucket, count in enumerate(groups):
        bucket_of |= {one.number: bucket for one in grads[len(bucket_of) : len(bucket_of) + count]}
    return replace(tape, entries=tuple(_packed(tape, grads, bucket_of, len(groups))))


def _packed(tape: Tape, grads: Sequence[Issue], bucket_of: dict[int, int], buckets: int) -> Iterator[Entry]:
    number_of = [next(one.number for one in grads if bucket_of[one.number] == bucket) for bucket in range(buckets)]
    missing = [sum(1 for one in bucket_of.values() if one == bucket) for bucket in range(buckets)]
    held, sent, early = [0.0] * buckets, [False] * buckets, [False] * buckets
    for entry in tape.entries:
        number = getattr(entry, "number", None)
        bucket = bucket_of.get(number) if number is not None else None
        if bucket is None:
            yield entry
        elif isinstance(entry, Issue):
            held[bucket] += entry.size_bytes
            missing[bucket] -= 1
            if not missing[bucket]:
                sent[bucket] = True
                yield replace(entry, number=number_of[bucket], size_bytes=held[bucket])
                if early[bucket]:
                    yield Wait(number_of[bucket])
        elif sent[bucket]:
            yield Wait(number_of[bucket])
        else:
            early[bucket] = True


def _gradients(tape: Tape, inside: bool = False) -> tuple[Issue, ...]:
    """Reducing messages among all ranks from the first backward on; `inside`: issued within backward passes only."""
    found: list[Issue] = []
    backward = now = False
    for entry in tape.entries:
        if isinstance(entry, Compute):
            now = entry.phase == "backward"
            backward = backward or now
        elif isinstance(entry, Issue) and (now if inside else backward) and entry.kind in OF_GRADIENTS:
            found += [entry] if entry.ranks in (0, tape.ranks) else []
    return tuple(found)


def _first_micro_batch(tape: Tape) -> tuple[int, int, bool] | None:
    """Begin and end of the first micro-batch, and whether it is also the last one, which sends the gradients."""
    begins: list[int] = []
    end, passed = 0, True
    for at, entry in enumerate(tape.entries):
        phase = entry.phase if isinstance(entry, Compute) else None
        if phase in ("data", "forward") and passed:
            begins.append(at)
            passed = False
        if phase == "backward":
            passed, end = True, at + 1
        elif phase is None and begins and end == at:
            end = at + 1  # the messages of the backward pass that has just ended
    if not begins or not end:
        return None
    if len(begins) > 1 and tape.micro_batches > 1 and begins[1] < end:
        return begins[0], begins[1], False
    begin = begins[0]
    while begin and not isinstance(tape.entries[begin - 1], Compute):
        begin -= 1  # the weights gathered before the forward pass
    return begin, end, True


def _each_message(entries: Sequence[Entry], change: Callable[[Issue, int], Issue]) -> tuple[Entry, ...]:
    changed: list[Entry] = []
    at = 0
    for entry in entries:
        if isinstance(entry, Issue):
            changed.append(change(entry, at))
            at += 1
        else:
            changed.append(entry)
    return tuple(changed)


def _renumbered(entry: Entry, by: int) -> Entry:
    return entry if isinstance(entry, Compute) else replace(entry, number=entry.number + by)
