"""The messages for runs that end without an answer: for a diagnosis without findings and for a failed rehearsal."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from scalewise.analysis.caveats import load_beside
from scalewise.errors import BadRequest
from scalewise.launch.failure_logs import MODULE_MISSING
from scalewise.plan.python_file import starts_ranks_itself
from scalewise.predict.answer import Refused
from scalewise.predict.rehearsed import NotRehearsed, RehearsedRank
from scalewise.records.load import Run
from scalewise.records.outcome import Outcome, RankEnd, WrittenFile
from scalewise.records.rehearsal import PolledRow, RehearsalRow, SteeredRow, TapeRow, UnrehearsedRow
from scalewise.records.spec import RunSpec
from scalewise.records.wrapped import not_observed
from scalewise.units import counted, one_sentence, with_capital

_USAGE = re.compile(r"^usage: ", re.IGNORECASE)
_COMPLAINT = re.compile(r"(?:^|: )error: (.*)", re.IGNORECASE)
_NEEDS_GPU = re.compile(
    r"Torch not compiled with CUDA|No CUDA GPUs are available|Found no NVIDIA driver|no NVIDIA GPU|no CUDA-capable"
    r"|torch\.cuda\.is_available\(\) is False|only supported with GPUs|built-in NCCL|NCCL (?:backend )?(?:is )?not"
    r"|Cannot access accelerator device|invalid device ordinal"
    r"|module 'torch\._C' has no attribute '_cuda",
    re.IGNORECASE,
)


def refusal(outcome: Outcome, spec: RunSpec) -> BadRequest | None:
    """The reason why nothing could be examined, if the request and not the script's training is to blame; else None."""
    if outcome.kind in ("not_started", "watcher_failed"):
        return BadRequest(_sentence(outcome.sentence), outcome.hint)
    if outcome.kind != "raised":
        return None
    end = outcome.first_failed
    return _arguments_missing(end, spec) or _package_missing(end, spec) if end is not None else None


def no_steps(outcome: Outcome, spec: RunSpec, forked: bool) -> BadRequest | None:
    """The message about a script that was never seen to train; None if its own failure says enough."""
    name = Path(spec.script).name
    stood = next((f" It stood at {end.stack[0].strip()}." for end in outcome.ranks if end.stack), "")
    if forked or (spec.mode == "python" and starts_ranks_itself(Path(spec.script))):
        return BadRequest(
            f"{name} starts its ranks itself, and none was seen to train: ranks that are forked are not watched.",
            "Start them with torch.multiprocessing.spawn, or let torchrun start them.",
        )
    if outcome.kind == "timed_out":
        return BadRequest(
            f"{name} reached no optimizer step within {spec.limit_seconds:g} s, so there is nothing to judge.{stood}",
            "Give it more time with --limit, or arguments with which it begins sooner: less data, fewer batches.",
        )
    if outcome.kind == "hung":
        return BadRequest(
            f"{name} stood still for {spec.stall_seconds:g} s before its first optimizer step.{stood}",
            "If it only needs that time to begin, raise --stall and --limit.",
        )
    if outcome.measured:
        return BadRequest(
            f"{name} trained, but none of its steps could be examined.",
            "The watcher's troubles are in the run's folder; run the same command again, and report it if it stays so.",
        )
    if outcome.kind == "no_steps" and outcome.world is not None and outcome.world.read:
        read = outcome.world.read[0].text()
        return BadRequest(f"{name} ended in order, but made no optimizer step; it read {read}.", outcome.hint)
    if outcome.kind == "no_steps":
        return BadRequest(
            f"{name} ended in order, but made no optimizer step: there is nothing to judge.",
            f"{with_capital(outcome.hint)}. Arguments go after two dashes: scalewise doctor SCRIPT -- ARGS",
        )
    return None


def needs_gpu(outcome: Outcome) -> bool:
    """Tells whether the script ended because there is no GPU for it."""
    end = outcome.first_failed
    return end is not None and bool(_NEEDS_GPU.search("\n".join(end.last_lines)))


def script_words(outcome: Outcome) -> list[str]:
    """Returns the traceback of the rank that failed first, or its last lines; nothing for other ends of a run."""
    end = outcome.first_failed
    if end is None or outcome.kind not in ("raised", "killed", "out_of_memory"):
        return []
    lines = list(end.last_lines)
    starts = [index for index, line in enumerate(lines) if "Traceback (most recent call last)" in line]
    return lines[starts[0] :] if starts else lines


def _arguments_missing(end: RankEnd, spec: RunSpec) -> BadRequest | None:
    lines = list(end.last_lines)
    usage = next((index for index, line in enumerate(lines) if _USAGE.match(line)), None)
    if end.exit_code != 2 or usage is None:
        return None
    complaints = [index for index, line in enumerate(lines) if index >= usage and _COMPLAINT.search(line)]
    said = _COMPLAINT.search(lines[complaints[-1]]) if complaints else None
    name = Path(spec.script).name
    given = f" (it got: {shlex.join(spec.args)})" if spec.args else ""
    quoted = "\n".join(lines[usage : complaints[-1] if complaints else len(lines)])
    return BadRequest(
        f"{name} does not accept its arguments{given}: {said.group(1) if said else lines[-1].strip()}.".replace(
            "..", "."
        ),
        f"{quoted}\nGive the script's own arguments after two dashes: scalewise doctor {name} -- ARGS",
    )


def _package_missing(end: RankEnd, spec: RunSpec) -> BadRequest | None:
    absent = end.exception in ("ModuleNotFoundError", "ImportError")
    missing = MODULE_MISSING.search(end.raised) if absent else None
    if missing is None:
        return None
    package = missing.group(1).partition(".")[0]
    return BadRequest(
        f"{Path(spec.script).name} needs the package {package}, which is not installed here.",
        f"pip install {package} (the name on PyPI may differ); if it is a module of your own, put its folder into "
        "PYTHONPATH or start from there.",
    )


def _sentence(text: str) -> str:
    return one_sentence(with_capital(text))


_MISSING = re.compile(r"(?:FileNotFoundError|No such file or directory)\D*?'([^']+)'|NotFound.*?'([^']+)'")
_MAKE_FIRST = (
    "A rehearsed rank has a view of the folder of its own, and barriers do not hold it back. Let real ranks make the "
    "file in this folder, then rehearse again: scalewise run {name} --ranks 2 --in-place"
)


def waits_for_file(ranks: int, name: str, run: Run) -> Refused | None:
    """The refusal of a script that failed for lack of a file that another rank writes; else None."""
    if run.spec.rehearsed is None or run.outcome is None:
        return None
    hint = _MAKE_FIRST.format(name=name)
    polled = [row for rank in run.ranks for row in rank.rehearsal if isinstance(row, PolledRow)]
    if polled and run.outcome.kind != "raised":
        row = polled[0]
        where = f"{Path(row.file).name}:{row.line}"
        return Refused(ranks, f"{name} as one of {ranks} ranks waits for another to write {row.path} ({where}).", hint)
    end = run.outcome.first_failed
    found = _MISSING.search("\n".join(end.last_lines)) if end is not None else None
    if end is None or found is None:
        return None
    path, rank = found[1] or found[2], run.spec.rehearsed.rank + end.rank
    writer = next((one for one in _written(run) if one.rank != end.rank and _same(one.path, path)), None)
    if writer is not None and writer.rank is not None:
        other = run.spec.rehearsed.rank + writer.rank
        sentence = f"rank {rank} of {ranks} reads {path}, which rank {other} writes first."
    elif rank:
        sentence = f"rank {rank} of {ranks} did not find {path}, which another rank may have to write first."
    else:
        return None
    return Refused(ranks, f"{name}: {sentence}", hint, end.last_lines[-1:])


def _written(run: Run) -> tuple[WrittenFile, ...]:
    return run.outcome.world.files if run.outcome is not None and run.outcome.world is not None else ()


def _same(listed: str, named: str) -> bool:
    """Compares two paths by name: one may be relative to the working folder and the other not."""
    return Path(listed).name == Path(named).name


MOST_WORDS = 12  # lines of the script's own output
MOST_PLACES = 3  # the last places before the script ended
DO_DISTRIBUTED = (
    "Let it make a process group and share its gradients: torch.distributed.init_process_group(), then "
    "model = DistributedDataParallel(model), and give each rank its part of the data; then rehearse it again."
)


def refuse_unstartable(script: Path) -> None:
    """Refuses a script that torchrun could not start."""
    if starts_ranks_itself(script):
        raise BadRequest(
            f"{script.name} starts its ranks itself, and a rehearsal needs a script that is one rank of many.",
            "Let torchrun start them: read RANK and WORLD_SIZE from the environment instead of calling spawn.",
        )


def refused(run: Run, found: RehearsedRank | NotRehearsed) -> Refused | None:
    """The reason why there is no prediction for that number of ranks; None if there is one."""
    spec, outcome = run.spec, run.outcome
    assert spec.rehearsed is not None
    ranks, name = spec.rehearsed.world_size, Path(spec.script).name
    if outcome is None or not outcome.measured:
        waits = waits_for_file(ranks, name, run)
        return waits or _without_others(ranks, name, run) or _by_end(ranks, name, spec, outcome, made_up(run))
    if ranks > 1 and not sends(run):
        sentence = f"No step of {name} sends anything to another rank by torch.distributed: each would train alone."
        return Refused(ranks, sentence, DO_DISTRIBUTED)
    if isinstance(found, NotRehearsed):
        hint = f"Let the script make 10 steps or more. {made_up(run)}".rstrip()
        return Refused(ranks, f"{name} as one of {ranks} ranks: {found.reason}.", hint)
    return None


def sends(run: Run) -> bool:
    """Tells whether any step sends anything to another rank."""
    taped = [row for rank in run.ranks for row in rank.rehearsal if isinstance(row, TapeRow)]
    return any(row.messages or row.outside for row in taped)


def why_unmeasured(run: Run) -> str:
    """The reason why real ranks have no step that could be compared with a predicted one."""
    if run.outcome is None or not run.outcome.measured:
        return run.outcome.sentence if run.outcome else "the run did not end"
    return "none of their steps had settled; let the script make more of them"


def warnings_of(rehearsals: Sequence[RehearsedRank]) -> tuple[str, ...]:
    """The warnings about what may not hold in predictions, each once."""
    said = [text for one in rehearsals for row in one.steered for text in [_steered(row)]]
    said += [text for one in rehearsals for row in one.unrehearsed for text in [_unrehearsed(row)]]
    return tuple(dict.fromkeys(said))


def loaded(runs: Sequence[Run]) -> tuple[str, ...]:
    """The warning that others used the cores during these runs, by the criteria of `scalewise run`; else nothing."""
    evidence = load_beside([run for run in runs if run.measured])
    if not evidence:
        return ()
    return (f"loaded machine: {evidence}; the numbers are in doubt: end other work on the machine and rehearse again",)


def left_out(runs: Sequence[Run]) -> tuple[str, ...]:
    """The warnings about what these runs could not show, because parts of the watcher failed and were left out."""
    return not_observed({name: why for run in runs for name, why in run.spec.without_hooks.items()})


def _steered(row: SteeredRow) -> str:
    return (
        f"the result of {row.collective} is looked at in {_place(row)} ({row.call}): the other ranks' part of it is "
        f"missing here, so if it steers what follows, the real run may go another way: {row.text}"
    )


def made_up(run: Run) -> str:
    """A sentence on made-up results of other ranks that may have led the script to its end; empty if it used none."""
    rows = _rows(run)
    looked = [f"{_place(row)} looks at the result of {row.collective}" for row in rows if isinstance(row, SteeredRow)]
    said = list(dict.fromkeys(looked))[-MOST_PLACES:]
    said += dict.fromkeys(f"it goes on with {row.what}" for row in _objects(rows))
    return _MADE_UP.format(places=", ".join(said), name=Path(run.spec.script).name) if said else ""


def _rows(run: Run) -> Sequence[RehearsalRow]:
    """The rows of the rank that failed; those of all ranks if none is to blame."""
    culprit = run.outcome.first_failed_rank if run.outcome else None
    return [row for rank in run.ranks if culprit in (None, rank.rank) for row in rank.rehearsal]


def _objects(rows: Sequence[RehearsalRow]) -> list[UnrehearsedRow]:
    return [row for row in rows if isinstance(row, UnrehearsedRow) and row.objects]


def _place(row: SteeredRow) -> str:
    return f"{Path(row.file).name}:{row.line}"


def _unrehearsed(row: UnrehearsedRow) -> str:
    return f"{row.what} cannot be rehearsed: {row.instead}"


def _without_others(ranks: int, name: str, run: Run) -> Refused | None:
    """The refusal of a script that failed for lack of other ranks' objects, which cannot be made up; else None."""
    missed = [row for row in _objects(_rows(run)) if row.objects == "missing"]
    if run.outcome is None or run.outcome.kind != "raised" or not missed:
        return None
    words = tuple(script_words(run.outcome)[-MOST_WORDS:])
    said = f"{name} as one of {ranks} ranks did not get on without {missed[0].what}: {_last_word(run.outcome, words)}"
    return Refused(ranks, one_sentence(said), _OBJECTS.format(name=name), words if len(words) > 1 else ())


def _by_end(ranks: int, name: str, spec: RunSpec, outcome: Outcome | None, made_up: str) -> Refused:
    role = f"as one of {counted(ranks, 'rank')}"
    if outcome is None:
        return Refused(ranks, f"{name} {role}: the rehearsal did not end.")
    known = refusal(outcome, spec)
    words = tuple(script_words(outcome)[-MOST_WORDS:])
    if known is not None:
        return Refused(ranks, known.sentence, known.hint.replace("scalewise doctor", "scalewise rehearse"), words)
    if needs_gpu(outcome):
        return Refused(ranks, f"{name} wants a GPU that is not there.", "Rehearse it where there is one.", words)
    if outcome.kind == "hung":
        return Refused(
            ranks,
            _stood(name, role, outcome, f"stood still for {spec.stall_seconds:g} s"),
            f"{_HANGS} {made_up}".rstrip(),
        )
    if outcome.kind == "timed_out":
        hint = "Raise --limit, or give it arguments with which its steps are shorter."
        took = f"took longer than {spec.limit_seconds:g} s for its first {spec.enough_steps} steps"
        return Refused(ranks, _stood(name, role, outcome, took), hint)
    if outcome.kind == "no_steps" and outcome.world is not None and outcome.world.read:
        read = outcome.world.read[0].text()
        return Refused(ranks, f"{name} {role} made no optimizer step; it read {read}.", outcome.hint)
    if outcome.kind == "no_steps":
        told = f"{with_capital(outcome.hint)}."
        hint = f"{told} Arguments go after two dashes: scalewise rehearse SCRIPT -- ARGS"
        return Refused(
            ranks, f"{name} {role} ended in order, but made no optimizer step.", f"{hint}\n{made_up}".rstrip()
        )
    itself = "" if made_up else " itself"
    said = one_sentence(f"{name}{itself} ended {role}: {_last_word(outcome, words)}")
    return Refused(ranks, said, made_up or _ENDED, words if len(words) > 1 else ())


_ENDED = "Give a number of ranks, or arguments after two dashes, with which the script itself goes on."
_MADE_UP = (
    "What other ranks would have sent is made up in a rehearsal, which may be why: {places}. Rehearse it without that "
    "part, or measure it with ranks that fit here: scalewise run {name} --ranks 2"
)
_OBJECTS = (
    "A rehearsed rank hears of no other, so scripts whose ranks agree by objects (torch.distributed.pipelining does so "
    "on shapes) cannot be rehearsed. Measure them with ranks that fit here: scalewise run {name} --ranks 2"
)
_HANGS = (
    "It waits for something that only another rank can do: a file, a socket, a store's key, a value that a collective "
    "was to bring. Rehearse it without that part, or raise --stall if it only needs the time."
)


def _stood(name: str, role: str, outcome: Outcome, what: str) -> str:
    where = next((f" at {end.stack[0].strip()}" for end in outcome.ranks if end.stack), "")
    return f"{name} {role} {what}{where}."


def _last_word(outcome: Outcome, words: Sequence[str]) -> str:
    end = outcome.first_failed
    said = next((line.strip() for line in reversed(words) if line.strip()), "")
    if said:
        return said
    return f"exit code {end.exit_code}" if end is not None else outcome.sentence
