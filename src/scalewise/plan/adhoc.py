"""Makes the suite behind `scalewise run SCRIPT.py --ranks 1,2 -- ARGS`: one script of the user's own."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import tomli_w

from scalewise.errors import BadRequest, did_you_mean
from scalewise.plan.expand import turns_problem
from scalewise.plan.experiment import LIMIT_SECONDS, STALL_SECONDS, DeviceChoice, Examination, Experiment, Suite
from scalewise.plan.words import changes_text, escaped
from scalewise.records.spec import Change, LauncherName, Mode
from scalewise.units import with_capital

MOST_DEVICES = 64  # of one process


def script_suite(
    script: Path,
    args: Sequence[str] = (),
    *,
    ranks: tuple[int, ...] = (1,),
    nodes: tuple[int, ...] = (),
    repeat: int = 1,
    device: DeviceChoice = "auto",
    launcher: LauncherName = "fork",
    mode: Mode = "torchrun",
    devices: int = 0,
    changes: tuple[tuple[Change, ...], ...] = ((),),
    limit_seconds: float = LIMIT_SECONDS,
    stall_seconds: float = STALL_SECONDS,
    turns: bool = False,
    inspect: bool = False,
    examination: Examination | None = None,
    in_place: bool = False,
    steps: int = 0,
    env: Mapping[str, str] | None = None,
) -> Suite:
    """A suite of one experiment named after the script; its arguments are passed on unchanged, with any braces."""
    check_script(script)
    if repeat < 1:
        raise BadRequest(f"--repeat {repeat} measures nothing.", "Give a number of repeats of at least 1.")
    if steps < 0:
        raise BadRequest(f"--steps {steps} is no number of steps.", "Give 1 or more, or leave it out.")
    _check_ranks(mode, ranks, nodes)
    if devices < 0 or devices > MOST_DEVICES:
        raise BadRequest(f"--devices {devices} is no number of GPUs.", f"Give one from 1 to {MOST_DEVICES}.")
    path = script.resolve()
    name = re.sub(r"[^a-z0-9_-]+", "-", path.stem.lower()).strip("-_") or "script"
    experiment = Experiment(
        name=name,
        script=escaped(str(path)),
        title=path.name,
        args=tuple(escaped(word) for word in args),
        mode=mode,
        devices=str(devices) if devices else "",
        device="cpu" if examination and examination.on_cpu else device,
        launcher=launcher,
        ranks=ranks,
        nodes=nodes,
        repeat=repeat,
        changes=changes,
        limit_seconds=limit_seconds,
        stall_seconds=stall_seconds,
        turns=turns,
        inspect=inspect,
        examination=examination,
        in_place=in_place,
        steps=steps,
        env={name: escaped(value) for name, value in (env or {}).items()},
    )
    problem = turns_problem(experiment, None) if turns else None
    if problem:
        raise BadRequest(f"No turns can be taken: {problem[0]}.", f"{with_capital(problem[1])}.")
    suite = Suite(f"{name}-doctor" if examination else name, experiments=(experiment,), title=path.name)
    return Suite(suite.name, suite.experiments, suite.title, source=_toml(suite))


def _check_ranks(mode: Mode, ranks: tuple[int, ...], nodes: tuple[int, ...]) -> None:
    """Refuses ranks of a plain process, and numbers of ranks that do not lie evenly on the hosts."""
    if mode == "python" and ranks != (1,):
        raise BadRequest("A plain python process has no ranks.", "Leave --ranks out, or use mode torchrun.")
    if mode == "python" and set(nodes) - {1}:
        raise BadRequest("A plain python process runs on one host.", "Leave --nodes out, or use mode torchrun.")
    uneven = [(count, hosts) for hosts in nodes for count in ranks if count % hosts]
    if uneven:
        count, hosts = uneven[0]
        said = f"{count} rank{'s' if count > 1 else ''} cannot be spread evenly over {hosts} hosts."
        raise BadRequest(said, "--ranks is the number of all ranks; give a multiple of --nodes.")


def check_script(script: Path) -> None:
    """Refuses what is no file, with the name of one that was perhaps meant."""
    if script.is_file():
        return
    if script.is_dir():
        raise BadRequest(f"{script} is a folder, not a script.", "Name the .py file that torchrun would run.")
    near = ""
    if script.parent.is_dir():
        near = did_you_mean(script.name, (file.name for file in script.parent.glob("*.py")))
    raise BadRequest(f"The script {script} does not exist.", with_capital(near) or "Check the path.")


def _toml(suite: Suite) -> str:
    """The suite as TOML, so that the run's folder says what was asked and can be run again as a suite."""
    (one,) = suite.experiments
    fields: dict[str, object] = {
        "name": one.name,
        "title": one.title,
        "script": one.script,
        "args": one.args,
        "mode": one.mode,
        "devices": one.devices,
        "device": one.device,
        "launcher": one.launcher,
        "ranks": one.ranks,
        **({"nodes": one.nodes} if one.nodes else {}),
        "repeat": one.repeat,
        "changes": [changes_text(arm) for arm in one.changes],
        "limit_seconds": float(one.limit_seconds),
        "stall_seconds": float(one.stall_seconds),
        "turns": one.turns,
        "inspect": one.inspect,
        "in_place": one.in_place,
        "steps": one.steps,
        "env": one.env,
    }
    note = "# Examined by `scalewise doctor`; run as a suite, it is measured instead.\n" if one.examination else ""
    text = note + tomli_w.dumps({"name": suite.name, "title": suite.title, "experiment": [fields]})
    return text.encode(
        "utf-8", errors="replace"
    ).decode()  # a file's name or an argument may hold bytes that are no text
