"""The reasons why a rehearsal gives no prediction, or why one may not hold: sentences with what to do next."""

from collections.abc import Sequence
from pathlib import Path

from scalewise.analysis.caveats import load_beside
from scalewise.errors import BadRequest
from scalewise.jobs.failure_messages import first_failed, needs_gpu, refusal, script_words
from scalewise.jobs.rehearse_files import waits_for_file
from scalewise.plan.python_file import starts_ranks_itself
from scalewise.predict.answer import Refused
from scalewise.predict.rehearsed import NotRehearsed, RehearsedRank
from scalewise.records.load import Run
from scalewise.records.outcome import Outcome
from scalewise.records.rehearsal import RehearsalRow, SteeredRow, TapeRow, UnrehearsedRow
from scalewise.records.spec import RunSpec
from scalewise.records.wrapped import not_observed

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
    blamed = run.outcome.first_failed_rank if run.outcome else None
    return [row for rank in run.ranks if blamed in (None, rank.rank) for row in rank.rehearsal]


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
    said = _last_word(run.outcome, words).rstrip(".")
    sentence = f"{name} as one of {ranks} ranks did not get on without {missed[0].what}: {said}."
    return Refused(ranks, sentence, _OBJECTS.format(name=name), words if len(words) > 1 else ())


def _by_end(ranks: int, name: str, spec: RunSpec, outcome: Outcome | None, made_up: str) -> Refused:
    role = f"as one of {ranks} rank{'s' if ranks > 1 else ''}"
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
        told = f"{outcome.hint[:1].upper()}{outcome.hint[1:]}."
        hint = f"{told} Arguments go after two dashes: scalewise rehearse SCRIPT -- ARGS"
        return Refused(
            ranks, f"{name} {role} ended in order, but made no optimizer step.", f"{hint}\n{made_up}".rstrip()
        )
    said = _last_word(outcome, words).rstrip(".")
    itself = "" if made_up else " itself"
    return Refused(ranks, f"{name}{itself} ended {role}: {said}.", made_up or _ENDED, words if len(words) > 1 else ())


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
    end = first_failed(outcome)
    said = next((line.strip() for line in reversed(words) if line.strip()), "")
    if said:
        return said
    return f"exit code {end.exit_code}" if end is not None else outcome.sentence
