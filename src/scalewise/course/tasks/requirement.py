"""Requirements of the course's sheets, those on any script, what was seen of one, and the verdict that follows."""

import ast
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from scalewise.analysis.inspected_run import Inspection
from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.records.examination import PlaceRow
from scalewise.records.load import Run
from scalewise.records.notes import ClockNote, DeviceSyncNote, ForwardNote, Note, SeedNote, StepNote

State = Literal["fulfilled", "not fulfilled", "not seen"]
FAILED = 2  # exit code: a requirement is not fulfilled, or the script failed


@dataclass(frozen=True)
class Found:
    """The result for one requirement: the state, what was measured, the line, and what to change."""

    state: State
    measured: str
    where: PlaceRow | None = None
    change: str = ""  # what to change, if it is not fulfilled


@dataclass(frozen=True)
class Seen:
    """The observations of a script; `shown` has one inspected run for each number of GPUs shown to it."""

    case: Case
    text: str  # the script's text
    reference: Run | None = None  # the course's Code 1 with the constants that were seen
    no_reference: str = ""  # why there is no reference
    shown: Mapping[int, Inspection | None] = field(default_factory=dict)
    printed: tuple[int, ...] = ()  # lines on stdout, rank by rank
    cut_short: bool = False  # the run ended at its limit, so more steps may have followed

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree of the script."""
        return ast.parse(self.text)

    def place(self, node: ast.expr) -> PlaceRow:
        """Returns the line of a node of the script's syntax tree."""
        line = self.text.splitlines()[node.lineno - 1].strip()
        return PlaceRow(-1, self.case.run.spec.script, node.lineno, "", line)


@dataclass(frozen=True)
class Requirement:
    """One thing that a sheet asks of a script, and how it is checked."""

    id: str  # the row of the sheet, such as H2.1
    asks: str  # in the sheet's words
    look: Callable[[Seen], Found]


@dataclass(frozen=True)
class Task:
    """A task of the sheets: what it asks of a script, and how the script is run to check it."""

    name: str
    title: str  # for the middle of a sentence: `homework 2 (H2.1)`
    script: str  # the course's own script, without its file ending
    requirements: tuple[Requirement, ...]
    plain: bool = False  # one process, without torchrun
    shown: tuple[int, ...] = ()  # numbers of GPUs that it is shown, one run each; empty: the existing ones
    compared: bool = False  # its losses are compared with those of Code 1


@dataclass(frozen=True)
class Judged:
    """A requirement and what was found of it."""

    requirement: Requirement
    found: Found


@dataclass(frozen=True)
class TaskVerdict:
    """The complete result of the check of a script."""

    task: Task
    script: str
    judged: tuple[Judged, ...]
    failure: str = ""  # one sentence, where the script did not get so far that it can be judged
    last_line: str = ""  # of what the script itself said
    where: PlaceRow | None = None  # the line of the script at which it failed or stood
    setting: str = ""  # ranks, steps and device
    folder: str = ""

    def count(self, state: State) -> int:
        """Returns how many requirements are in that state."""
        return sum(one.found.state == state for one in self.judged)

    @property
    def exit_code(self) -> int:
        """The exit code: 0 if no requirement is broken; what was not seen is reported, but does not count."""
        return FAILED if self.failure or self.count("not fulfilled") else 0

    def sentence(self) -> str:
        """Returns the verdict in one sentence."""
        if self.failure:
            return self.failure
        whole, kept = len(self.judged), self.count("fulfilled")
        if kept == whole:
            return f"All {whole} requirements of {self.task.title} are fulfilled."
        rest = [(self.count("not fulfilled"), "not"), (self.count("not seen"), "not seen")]
        words = [f"{count} {'is' if count == 1 else 'are'} {word}" for count, word in rest if count]
        are = "is" if kept == 1 else "are"
        return f"{kept} of {whole} requirements of {self.task.title} {are} fulfilled, {' and '.join(words)}."


def judge_task(task: Task, seen: Seen) -> tuple[Judged, ...]:
    """Judges every requirement of the task; one that cannot be decided is `not seen`, with the reason."""
    return tuple(_judge(task, seen))


def _judge(task: Task, seen: Seen) -> Iterator[Judged]:
    for requirement in task.requirements:
        try:
            found = requirement.look(seen)
        except Abstain as reason:
            found = Found("not seen", str(reason))
        yield Judged(requirement, found)


def decided(right: bool, measured: str, where: PlaceRow | None = None, change: str = "") -> Found:
    """Returns fulfilled or not; what to change is kept only if it is not."""
    return Found("fulfilled" if right else "not fulfilled", measured, where, "" if right else change)


LEAST_STEPS, WARMUP_STEPS = 30, 5  # numbers of steps in homework 1
SEED_CALLS = ("torch.manual_seed", "torch.cuda.manual_seed_all")


def call_named(seen: Seen, name: str) -> ast.Call | None:
    """Returns the first call of a function by that name, or by its last part if that was imported alone; or None."""
    short = name.rpartition(".")[2]
    calls = [node for node in ast.walk(seen.tree) if isinstance(node, ast.Call)]
    return next((call for call in calls if ast.unparse(call.func) in (name, short)), None)


def _seeds(seen: Seen) -> Found:
    change = f"Call {SEED_CALLS[0]}(0) and {SEED_CALLS[1]}(0) before the model and the data are made."
    noted = [rank.notes for rank in seen.case.ranks]
    seeds = [note for note in seen.case.first.all(SeedNote) if note.call == SEED_CALLS[0]]
    if not all(any(isinstance(note, SeedNote) and note.call == SEED_CALLS[0] for note in notes) for notes in noted):
        return decided(False, f"{SEED_CALLS[0]} was not called on every rank", None, change)
    where, written = seen.case.first.place(seeds[0]), call_named(seen, SEED_CALLS[0])
    given = written.args[0] if written is not None and written.args else None
    seed = _number(seen, given)
    if seed or (given is not None and seed is None and "rank" in ast.unparse(given).lower()):
        told = ast.unparse(given) if given is not None and seed is None else seed
        return decided(False, f"the seed is {told}, and the sheet asks for 0", where, change)
    if given is not None and seed is None:
        raise Abstain(f"which number {ast.unparse(given)} is could not be read; the sheet asks for 0")
    trained = next((at for at, note in enumerate(noted[0]) if isinstance(note, ForwardNote) and note.trains), None)
    if trained is not None and noted[0].index(seeds[0]) > trained:
        return decided(False, f"{SEED_CALLS[0]} was called after the first forward pass", where, change)
    on_gpus = call_named(seen, SEED_CALLS[1])
    if on_gpus is None:
        return decided(False, f"{SEED_CALLS[0]} was called, {SEED_CALLS[1]} is not in the script", where, change)
    use = seen.case.first.device_use
    called = use is not None and use.redirected.get(SEED_CALLS[1], 0) > len(seeds)  # each seed call seeds the GPUs, too
    told = "both were called" if called else f"{SEED_CALLS[0]} was called, {SEED_CALLS[1]} stands in the script"
    ranks = len(seen.case.ranks)
    return decided(True, f"{told}{f', on {ranks} ranks' if ranks > 1 else ''}", where)


def _on_gpu(seen: Seen) -> Found:
    change = 'Choose the device in the script: torch.device("cuda", ...) where torch.cuda.is_available(), else "cpu".'
    model = seen.case.first.record.model
    if model is not None and any(device.startswith("cuda") for device in model.devices):
        return decided(True, f"the model lies on {', '.join(model.devices)}")
    use = seen.case.first.device_use
    asked = [name for name in use.asked if name.startswith("cuda")] if use else []
    if use is None or not (seen.case.run.spec.on_cpu or seen.case.run.spec.stand_ins):
        raise Abstain("the run was not shown a GPU")
    words = (
        f"it asked for {', '.join(asked)} (CPU cores stood in)" if asked else "a GPU was shown, and it asked for none"
    )
    return decided(bool(asked), words, None, change)


def _timed(seen: Seen) -> Found:
    first = seen.case.first
    clocks = first.all(ClockNote)
    if not clocks:
        change = "Read time.perf_counter() before the forward pass and after optimizer.step(), in every step."
        return decided(False, "no clock was read", None, change)
    stretches = list(_around_steps(first))
    right = sum(bool(before and after) and not between for before, between, after in stretches)
    misplaced = next((note for _, between, _ in stretches for note in between), None)
    where = first.place(misplaced or clocks[0])
    measured = f"clocks stand before forward and after the optimizer step in {right} of {len(stretches)} steps"
    change = "Read the clock before the first forward pass of a step and after optimizer.step(), and not in between."
    return decided(right == len(stretches) > 0, measured, where, change)


def _around_steps(rank: RankCase) -> Iterator[tuple[list[ClockNote], list[ClockNote], list[ClockNote]]]:
    """Yields the clocks before a step's first forward pass, between that and its optimizer step, and after it."""
    before: list[ClockNote] = []
    between: list[ClockNote] = []
    after: list[ClockNote] = []
    opened = stepped = False
    for note in rank.notes:
        if isinstance(note, ForwardNote) and note.trains and stepped:
            yield before, between, after
            before, between, after, stepped = after, [], [], False
        if isinstance(note, ForwardNote) and note.trains:
            opened = True
        elif isinstance(note, StepNote):
            stepped = True
        elif isinstance(note, ClockNote):
            (after if stepped else between if opened else before).append(note)
    if stepped:
        yield before, between, after


def _synchronised(seen: Seen) -> Found:
    first = seen.case.first
    clocks = first.all(ClockNote)
    if not clocks:
        raise Abstain("no clock was read")
    on_gpu = first.device_use is not None and first.device_use.asked
    if not on_gpu and not first.all(DeviceSyncNote):
        raise Abstain("the script used no GPU, so it had nothing to wait for")
    waited = [_before(first.notes, index) for index, note in enumerate(first.notes) if isinstance(note, ClockNote)]
    late = next((note for note, was in zip(clocks, waited, strict=True) if not was), None)
    measured = f"before {sum(waited)} of {len(waited)} readings of the clock"
    change = "Call torch.cuda.synchronize() right before every reading: a call returns while the GPU still works."
    return decided(late is None, measured, first.place(late or clocks[0]), change)


def _before(notes: Sequence[Note], index: int) -> bool:
    """Returns True if the script waited for its device since the last work; the GPU itself records an Event."""
    note = notes[index]
    if isinstance(note, ClockNote) and note.function == "Event.record":
        return True
    for earlier in reversed(notes[:index]):
        if isinstance(earlier, DeviceSyncNote):
            return True
        if not isinstance(earlier, ClockNote) and type(earlier).__name__ in ("ForwardNote", "BackwardNote", "StepNote"):
            return False
    return False


def _steps(seen: Seen) -> Found:
    steps = len(seen.case.first.windows)
    if seen.cut_short and steps < LEAST_STEPS:
        raise Abstain(f"{steps} steps were seen until the limit; --limit raises it")
    return decided(steps >= LEAST_STEPS, f"{steps} steps", None, f"Make at least {LEAST_STEPS} optimizer steps.")


def _warm_up_left_out(seen: Seen) -> Found:
    """Looks in the text for a slice of a list of times, or for a comparison of a step counter with a number."""
    change = f"Leave the first {WARMUP_STEPS} steps out of the average, for example: times[{WARMUP_STEPS}:]"
    found = list(_left_out(seen))
    if not found:
        raise Abstain("no slice such as times[5:] and no comparison such as step >= 5 was found in the script's text")
    most, node = max(found, key=lambda one: one[0])
    return decided(most >= WARMUP_STEPS, f"{most} steps are left out", seen.place(node), change)


def _left_out(seen: Seen) -> Iterator[tuple[int, ast.expr]]:
    """Yields how many steps each piece of text leaves out: times[5:], if step >= 5: ..., if step < 5: continue."""
    counters = _counters(seen)
    for node in ast.walk(seen.tree):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            number = _number(seen, node.slice.lower)
            if number is not None and number > 0:
                yield number, node
        elif isinstance(node, ast.Compare):
            yield from _edge(seen, node, counters, {ast.GtE: 0, ast.Gt: 1})
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and _skips(node):
            yield from _edge(seen, node.test, counters, {ast.Lt: 0, ast.LtE: 1})


def _skips(node: ast.If) -> bool:
    """Returns whether steps that meet the condition are skipped: by `continue`, or because the rest is in `else`."""
    return bool(node.orelse or isinstance(node.body[-1], ast.Continue))


def _edge(
    seen: Seen, node: ast.Compare, counters: Mapping[str, int], more: Mapping[type[ast.cmpop], int]
) -> Iterator[tuple[int, ast.expr]]:
    """The step, counted from 0, from which on a comparison of a counter with a number changes its answer."""
    number = _number(seen, node.comparators[0])
    counted = isinstance(node.left, ast.Call) and ast.unparse(node.left.func) == "len"
    first = counters.get(ast.unparse(node.left), 0 if counted else None)
    if number is not None and first is not None and type(node.ops[0]) in more:
        yield number + more[type(node.ops[0])] - first, node


def _counters(seen: Seen) -> dict[str, int]:
    """Names that count steps, with the number they begin at: targets of loops, and what is counted up."""
    found: dict[str, int] = {}
    for node in ast.walk(seen.tree):
        if isinstance(node, ast.For):
            call = node.iter if isinstance(node.iter, ast.Call) else None
            starts = {"range": 0, "enumerate": 1}.get(ast.unparse(call.func)) if call is not None else None
            given = call.args[starts] if call is not None and starts is not None and len(call.args) > 1 else None
            names = [one.id for one in ast.walk(node.target) if isinstance(one, ast.Name)]
            found |= dict.fromkeys(names, _number(seen, given) or 0)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found.setdefault(node.target.id, 0)
    return found


def _number(seen: Seen, node: ast.expr | None) -> int | None:
    """Returns a number written in the code, or the value of a constant, as the environment may set it; or None."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if not isinstance(node, ast.Name):
        return None
    for line in seen.tree.body:
        if isinstance(line, ast.Assign) and any(
            isinstance(one, ast.Name) and one.id == node.id for one in line.targets
        ):
            own = os.environ.get(node.id, "") if "environ" in ast.unparse(line.value) else ""
            if own.isdecimal():
                return int(own)
            parts = [part.value for part in ast.walk(line.value) if isinstance(part, ast.Constant)]
            return next((part for part in parts if type(part) is int), None)
    return None


def _prints(seen: Seen) -> Found:
    if len(seen.printed) < 2:
        raise Abstain("only one rank ran")
    counts = ", ".join(f"rank {rank} {lines}" for rank, lines in enumerate(seen.printed))
    written = next(_prints_of_all(seen.tree), None)
    where: PlaceRow | None = seen.place(written) if written is not None else None
    right = seen.printed[0] > 0 and not any(seen.printed[1:])
    return decided(right, f"lines printed: {counts}", where, "Print only where the rank is 0: if rank == 0: print(...)")


def _prints_of_all(node: ast.AST) -> Iterator[ast.Call]:
    """Calls of print that no `if` keeps to one rank, in the order of the text."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ("rank" in ast.unparse(child.test) or "== 0" in ast.unparse(child.test)):
            for other in child.orelse:
                yield from _prints_of_all(other)
            continue
        if isinstance(child, ast.Call) and ast.unparse(child.func) == "print":
            yield child
        yield from _prints_of_all(child)


def seeds(id: str) -> Requirement:
    """Returns the requirement that the script fixes the seeds."""
    return Requirement(id, "torch.manual_seed(0) and torch.cuda.manual_seed_all(0)", _seeds)


def on_gpu(id: str) -> Requirement:
    """Returns the requirement that the script uses a GPU if there is one."""
    return Requirement(id, "runs on GPUs", _on_gpu)


def synchronised(id: str) -> Requirement:
    """Returns the requirement that the script waits for the GPU before each reading of a clock."""
    return Requirement(id, "torch.cuda.synchronize() wherever a clock is read", _synchronised)


MEASURING = (
    Requirement("H1.1", "each step timed from before forward to after the optimizer step", _timed),
    synchronised("H1.1"),
    Requirement("H1.1", "print on rank 0 only", _prints),
    Requirement("H1.1", f"at least {LEAST_STEPS} steps", _steps),
    Requirement("H1.1", f"first {WARMUP_STEPS} steps ignored", _warm_up_left_out),
)
