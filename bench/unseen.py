"""How well the steps of scripts are foreseen on which nothing was tuned: rehearsed first, really run minutes later.

Every model is rehearsed for each number of ranks that fits, then all of them are run with their real ranks, in rounds,
so that a prediction and what it is held against lie minutes apart, and repeats of a run as well. The runs stay in the
folder; `--runs FOLDER` judges what lies there once more, by the model of today.

The sets of models are in `scripts/unseen_sets.py`. Of some models of the development set, further runs take the
time apart: ranks that exchange nothing (what a rehearsal is off by itself), ranks that wait for each other at every
bucket but send one number only (what waiting for the slowest costs; the rest is the bytes and what they cost
computing), and the rehearsal of a rank alone (what its company costs).
What a message costs in several settings is measured by itself (`scripts/message_effects.py`).
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.scripts.unseen_sets import SETS
from bench.unseen_judge import OF_LINK, OF_MESSAGES, SCRIPTS, judged
from bench.unseen_learn import learned
from bench.unseen_plots import plotted
from scalewise.errors import BadRequest
from scalewise.jobs.machine_probes import probe_link
from scalewise.jobs.measure import Here
from scalewise.jobs.rehearse import RehearsalStage
from scalewise.jobs.rehearse_request import RehearseRequest
from scalewise.jobs.reporter import SILENT, SilentListener
from scalewise.launch.campaign import Interrupts, run_campaign
from scalewise.launch.forkserver import Servers
from scalewise.launch.this_machine import machine_facts
from scalewise.plan.adhoc import script_suite
from scalewise.plan.expand import expand
from scalewise.plan.seating import Seating, seating
from scalewise.records.codec import write_json
from scalewise.records.folder import SuiteFolder
from scalewise.records.load import Run
from scalewise.records.machine import MachineFacts
from scalewise.records.spec import Change

RANKS = (2, 4, 8)  # those that leave every rank two cores, or two ranks of one core each
ROUNDS = 3
STEPS = 40
QUICK = 4  # every so manieth model is a look
TAKEN_APART = 3  # every so manieth model of the development set
NO_MESSAGES = Change("remove_communication")
SETTINGS_SECONDS = 4.0  # for messages in several settings, of each number of ranks


@dataclass(frozen=True)
class Made:
    """The runs of one model."""

    name: str
    stage: RehearsalStage
    counts: tuple[int, ...]


def run(
    quick: bool,
    cuda: bool,
    which: str,
    folder: Path | None,
    minutes: float,
    skip: int,
    most: int | None,
    learn_from: Sequence[Path],
    plots: Path | None,
) -> dict[str, object]:
    """Makes the runs, unless the folder holds them already, and prints how well they were foreseen."""
    if learn_from:
        return learned(learn_from)
    if plots is not None and folder is not None:
        return plotted(folder / which, plots)
    if folder is not None and (folder / which).is_dir():
        return judged(folder / which)
    place = (folder or Path("runs") / f"bench-{time.strftime('%Y%m%d-%H%M%S')}") / which
    names = chosen(which, skip, most, QUICK if quick else 1)
    end = time.monotonic() + 60 * minutes
    with Servers() as servers:
        here = Here(servers, machine_facts(servers))
        seats = seating(here.facts, "cpu", _fitting(here.facts))
        print(f"\n{len(names)} models of the {which} set on {', '.join(map(str, seats.counts))} ranks of "
              f"{seats.cores_per_rank} cores each; runs in {place}", flush=True)  # fmt: skip
        place.mkdir(parents=True)
        write_json(place / "probe0.json", probe_link(here, seats, place / OF_LINK))
        made = _rehearsals(here, seats, place, which, names, end)
        _round(made, 0, end)
        if SETS[which].taken_apart:
            _messages(here, seats, place)
            _taken_apart(made[:: 1 if quick else TAKEN_APART], end)
        for number in range(1, 1 if quick else ROUNDS):
            _round(made, number, end)
    return judged(place)


def _fitting(facts: MachineFacts) -> tuple[int, ...]:
    cores = len(facts.cores)
    return tuple(ranks for ranks in RANKS if 2 * ranks <= cores) or (2,)


def chosen(which: str, skip: int, most: int | None, every: int) -> list[str]:
    """The names of a part of a set: without so many first ones, every so manieth, and no more than asked for."""
    if skip < 0:
        raise BadRequest(f"--skip {skip} is less than 0.")
    if most is not None and most < 1:
        raise BadRequest(f"--most {most} leaves no model.")
    names = list(_models(which))
    if skip >= len(names):
        raise BadRequest(f"--skip {skip} leaves none of the {len(names)} models of the set {which}.")
    return names[skip::every][:most]


def _models(which: str) -> Iterator[str]:
    """Yields the names in the set's file, in their order: this process imports no torch."""
    import ast

    tree = ast.parse((SCRIPTS / f"{which}_models.py").read_text(encoding="utf-8"))
    table = next(
        one.value for one in tree.body
        if isinstance(one, ast.Assign) and getattr(one.targets[0], "id", "") == "SUBJECTS"
    )  # fmt: skip
    assert isinstance(table, ast.Dict)
    yield from (str(key.value) for key in table.keys if isinstance(key, ast.Constant))


def _rehearsals(here: Here, seats: Seating, place: Path, which: str, names: list[str], end: float) -> tuple[Made, ...]:
    made: list[Made] = []
    for name in names:
        request = RehearseRequest(
            script=SCRIPTS / "train_unseen.py",
            args=(which, name, "--steps", str(STEPS)),
            ranks=seats.counts,
            check=False,
            advice=False,
            device="cpu",
            limit_seconds=60.0,
            out=place / name,
        )
        one = Made(name, RehearsalStage(request, SILENT, here), seats.counts)
        began = time.monotonic()
        good = all(_told(one.stage.rehearse(ranks)) for ranks in one.counts)
        print(f"rehearsed {name} in {time.monotonic() - began:.1f} s", flush=True)
        made += [one] * good
        if time.monotonic() > end:
            break
    return tuple(made)


def _round(made: Sequence[Made], number: int, end: float) -> None:
    """Runs everything once; the order rotates, so that no model is always right after the rehearsals."""
    began = time.monotonic()
    for one in (*made[number:], *made[:number]):
        if time.monotonic() > end:
            print(f"no time was left for round {number} of {one.name}", flush=True)
            continue
        for ranks in one.counts:
            _told(one.stage.measure(ranks, name=f"-round{number}"))
    print(f"round {number} in {time.monotonic() - began:.1f} s", flush=True)


def _taken_apart(made: Sequence[Made], end: float) -> None:
    for one in made:
        for ranks in reversed(one.counts):
            if time.monotonic() < end:
                _told(one.stage.measure(ranks, name="-no-messages", changes=(NO_MESSAGES,)))
                _told(one.stage.measure(ranks, name="-one-number", args=("--one-number",)))
                _told(one.stage.rehearse(ranks, company=1, name="-alone"))
        for run in (one.stage.rehearse, one.stage.measure):
            if time.monotonic() < end:
                _told(run(1))


def _messages(here: Here, seats: Seating, place: Path) -> None:
    """Leaves the times of messages in several settings among each number of ranks."""
    words = ["--seconds", f"{SETTINGS_SECONDS:g}"]
    suite = script_suite(SCRIPTS / "message_effects.py", words, ranks=seats.counts, device="cpu")
    folder = SuiteFolder(place / OF_MESSAGES)
    for spec in expand(suite, here.facts, Path.cwd()).runs:
        spec = replace(spec, limit_seconds=30.0)
        run_campaign([spec], folder, here.facts, SilentListener(), here.servers, Interrupts())
        said = folder.run(spec.name).stdout(0).read_text(encoding="utf-8").strip()
        print(f"messages in several settings, {spec.ranks} ranks, [seconds, times]: {said}", flush=True)


def _told(run: Run) -> bool:
    if not run.measured:
        outcome = run.outcome
        print(f"{run.spec.name} of {run.spec.args[1]}: {outcome.sentence if outcome else 'no end'}", flush=True)
    return run.measured
