"""Writes an inspected run as a trace in the Chrome trace event format, for ui.perfetto.dev and chrome://tracing.

One process per rank, one thread per track: phases, micro-batches, collectives, and of the profiled step also operators
and kernels. All ranks of a host share one clock; those of other hosts are aligned at the end of a backward pass.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import scalewise
from scalewise.errors import BadRequest
from scalewise.records.folder import RunFolder
from scalewise.records.load import LoadedSuite, RankRecord, Run
from scalewise.records.steps import NamedSpan, StepSpans, read_step_spans
from scalewise.units import NANO, bytes_text

SHOWN_STEPS = 3  # the profiled step, and those after it
GRID = 64  # parts of a us: such times add up without rounding, so that a slice ends in a viewer where its parts end

Event = dict[str, Any]


@dataclass(frozen=True)
class Traced:
    """The data of one rank that the trace shows."""

    rank: RankRecord
    steps: tuple[StepSpans, ...]
    tracks: dict[str, list[NamedSpan]]  # of the profiled step
    profiled: int  # number of that step; -1: none was profiled
    left_out: int  # operators that are not in the tracks


@dataclass(frozen=True)
class RankStep:
    """One profiled step of one rank, in seconds from the beginning of the first rank's step."""

    rank: int
    phases: tuple[tuple[str, float, float], ...]  # name, begin, end; without gaps
    all_reduces: tuple[tuple[float, float, int], ...]  # begin, end, bytes; on the link, beside the phases

    @property
    def backward(self) -> tuple[float, float]:
        """The first and the last moment of backward."""
        spans = [(begin, end) for name, begin, end in self.phases if name == "backward"]
        return (spans[0][0], spans[-1][1]) if spans else (0.0, 0.0)

    @property
    def last_issue(self) -> float:
        """The time at which the last gradients were handed over: from here on backward only waits for messages."""
        begin, end = self.backward
        return min(max((one[0] for one in self.all_reduces), default=end), end) if end > begin else end

    @property
    def hidden_share(self) -> float:
        """The share of the all-reduces' time during which backward still computed."""
        total = sum(end - begin for begin, end, _ in self.all_reduces)
        hidden = sum(max(0.0, min(end, self.last_issue) - begin) for begin, end, _ in self.all_reduces)
        return hidden / total if total else 0.0


def profiled_step(run: Run) -> tuple[RankStep, ...]:
    """The profiled step of an inspected run, rank by rank; empty if none was profiled."""
    ranks = [one for one in (_traced(run, rank) for rank in run.ranks) if one.steps and one.profiled >= 0]
    shown = [next((step for step in one.steps if step.step == one.profiled), None) for one in ranks]
    shifts, _ = _shifts(ranks) if ranks else ([], "")
    begins = [step.begin_ns + shift for step, shift in zip(shown, shifts, strict=True) if step is not None]
    found = []
    for one, step, shift in zip(ranks, shown, shifts, strict=True):
        if step is None:
            continue
        moved = shift - min(begins)
        spans = [span for span in one.tracks.get("collectives", []) if "all_reduce" in span.name]
        inside = [span for span in spans if step.begin_ns <= span.begin_ns <= step.end_ns]
        found.append(
            RankStep(
                one.rank.rank,
                tuple(
                    (span.name, (span.begin_ns + moved) * NANO, (span.end_ns + moved) * NANO) for span in step.phases
                ),
                tuple(
                    ((span.begin_ns + moved) * NANO, (span.end_ns + moved) * NANO, span.size_bytes)
                    for span in sorted(inside, key=lambda span: span.begin_ns)
                ),
            )
        )
    return tuple(found)


def traced_run(loaded: LoadedSuite) -> Run:
    """The inspected run with the most ranks."""
    runs = [run for run in loaded.runs if run.spec.inspected and run.measured]
    if not runs:
        raise BadRequest(
            f"{loaded.path} holds no inspected run that ended well, so there is no step to trace.",
            "Measure it with: scalewise run SCRIPT.py --trace FILE",
        )
    return max(runs, key=lambda run: run.spec.world_size)


def write_trace(run: Run, path: Path) -> None:
    """Writes the run's trace; raises BadRequest if the file cannot be written."""
    text = json.dumps(trace_of(run), separators=(",", ":"))
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadRequest(f"The trace cannot be written to {path}: {error.strerror}.", "Choose another file.") from error


def trace_of(run: Run) -> dict[str, Any]:
    """The whole trace file as values."""
    ranks = [one for one in (_traced(run, rank) for rank in run.ranks) if one.steps]
    shifts, clock = _shifts(ranks)
    begins = [one.steps[0].begin_ns + shift for one, shift in zip(ranks, shifts, strict=True)]
    begins += [
        span.begin_ns + shift
        for one, shift in zip(ranks, shifts, strict=True)
        for span in (*one.steps[0].waiting, *one.steps[0].collectives)
    ]
    origin_ns = min(begins, default=0)
    events = [
        event
        for one, shift in zip(ranks, shifts, strict=True)
        for event in _rank_events(one, origin_ns - shift, run.spec.device)
    ]
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "made by": f"scalewise {scalewise.__version__}",
            "run": run.spec.name,
            "clock": clock,
            "times": "those of an inspected run: the profiled step is slower than a timed one",
            "operators left out": sum(one.left_out for one in ranks),
        },
    }


def _traced(run: Run, rank: RankRecord) -> Traced:
    folder = RunFolder(run.folder)
    spans = read_step_spans(folder.rank(rank.rank))
    try:
        kept = json.loads(folder.calls(rank.rank).read_text(encoding="utf-8"))
        profiled = int(kept["step"])
        tracks: dict[str, list[NamedSpan]] = {name: [] for name in kept["tracks"]}
        for name, track, begin, end, size in kept["calls"]:
            span = NamedSpan(kept["names"][name], int(begin), int(end), int(size))
            tracks[kept["tracks"][track]].append(span)
        left_out = int(kept["left_out"])
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        tracks, profiled, left_out = {}, -1, 0
    after = [one for one in spans if one.step >= profiled] if profiled >= 0 else []
    shown = after[:SHOWN_STEPS] or spans[-SHOWN_STEPS:]
    return Traced(rank, tuple(shown), tracks, profiled, left_out)


def _shifts(ranks: Sequence[Traced]) -> tuple[list[int], str]:
    """The shift of each rank's clock, and a text about how the clocks were aligned."""
    hosts = [one.rank.start.host if one.rank.start else "" for one in ranks]
    if len(set(hosts)) < 2:
        return [0] * len(ranks), "one host, one clock"
    marks: dict[str, int] = {}
    for host, one in zip(hosts, ranks, strict=True):
        ends = [span.end_ns for span in one.steps[0].phases if span.name == "backward"]
        marks.setdefault(host, ends[-1] if ends else one.steps[0].end_ns)
    first = next(iter(marks.values()))
    told = (
        "several hosts: their clocks are set to agree where the first backward pass ends, so they are off by its skew"
    )
    return [first - marks[host] for host in hosts], told


def _rank_events(one: Traced, origin_ns: int, device: str) -> Iterable[Event]:
    pid = one.rank.rank
    host = one.rank.start.host if one.rank.start else "unknown host"
    yield _named("process_name", pid, 0, f"rank {pid} ({device}, {host})")
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}
    tracks: list[tuple[str, list[NamedSpan]]] = [
        ("phases", [span for step in one.steps for span in (*step.waiting, *_step(step, one.profiled), *step.phases)]),
        ("micro-batches", [span for step in one.steps for span in step.micro_batches]),
        ("calls of collectives", [span for step in one.steps for span in step.collectives]),
        *((name, _buckets(name, spans, one)) for name, spans in sorted(one.tracks.items())),
    ]
    tid = 0
    for name, spans in tracks:
        for number, lane in enumerate(_lanes(spans)):
            tid += 1
            yield _named("thread_name", pid, tid, name if not number else f"{name} {number + 1}")
            yield {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}}
            for span in lane:
                yield _slice(span, pid, tid, origin_ns)


def _step(step: StepSpans, profiled: int) -> list[NamedSpan]:
    return [NamedSpan(f"step {step.step}{' (profiled)' if step.step == profiled else ''}", step.begin_ns, step.end_ns)]


def _buckets(track: str, spans: list[NamedSpan], one: Traced) -> list[NamedSpan]:
    """The spans, under DDP with names of buckets for all-reduces that begin in a backward pass."""
    if track != "collectives" or one.rank.model is None or one.rank.model.wrapper != "DistributedDataParallel":
        return spans
    passes = [span for step in one.steps for span in step.phases if span.name == "backward"]
    named, number = [], 0
    for span in sorted(spans, key=lambda span: span.begin_ns):
        inside = any(backward.begin_ns <= span.begin_ns <= backward.end_ns for backward in passes)
        if inside and "all_reduce" in span.name:
            number += 1
            named.append(NamedSpan(f"bucket {number}: {span.name}", span.begin_ns, span.end_ns, span.size_bytes))
        else:
            named.append(span)
    return named


def _lanes(spans: Iterable[NamedSpan]) -> list[list[NamedSpan]]:
    """Spans divided into lanes in which slices are nested or apart; a span that crosses another gets a new lane."""
    lanes: list[_Lane] = []
    for span in sorted(spans, key=lambda span: (span.begin_ns, -span.end_ns)):
        lane = next((one for one in lanes if one.has_room(span)), None)
        if lane is None:
            lanes.append(lane := _Lane())
        lane.spans.append(span)
        lane.open_ends.append(span.end_ns)
    return [lane.spans for lane in lanes]


class _Lane:
    """A lane of properly nested slices, and the ends of those that are still open."""

    def __init__(self) -> None:
        self.spans: list[NamedSpan] = []
        self.open_ends: list[int] = []

    def has_room(self, span: NamedSpan) -> bool:
        """Tells whether the slice lies inside the innermost open one, or after all."""
        while self.open_ends and self.open_ends[-1] <= span.begin_ns:
            self.open_ends.pop()
        return not self.open_ends or span.end_ns <= self.open_ends[-1]


def _slice(span: NamedSpan, pid: int, tid: int, origin_ns: int) -> Event:
    begin, end = (round((at_ns - origin_ns) * GRID / 1000) / GRID for at_ns in (span.begin_ns, span.end_ns))
    name = f"{span.name} {bytes_text(span.size_bytes)}" if span.size_bytes else span.name
    event = {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": begin}
    event["dur"] = max(0.0, end - begin)
    return event | ({"args": {"bytes": span.size_bytes}} if span.size_bytes else {})


def _named(what: str, pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}
