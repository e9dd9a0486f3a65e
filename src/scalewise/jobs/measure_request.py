"""The request for a measurement, and the suite that it means: a user's script, or a suite by name or file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scalewise.errors import BadRequest
from scalewise.jobs.arguments import Spelled
from scalewise.plan.experiment import DeviceChoice, Suite, changed
from scalewise.records.spec import Change, LauncherName


@dataclass(frozen=True)
class MeasureRequest:
    """A script or a suite, with options for measuring it; None stands for the suite's value or the default."""

    what: str
    args: tuple[str, ...] = ()
    ranks: tuple[int, ...] | None = None
    repeat: int | None = None
    change: tuple[str, ...] = ()
    emulate_link: str | None = None
    turns: bool = False
    inspect: bool = False
    trace: Path | None = None
    plain: bool = False
    devices: int | None = None
    device: DeviceChoice | None = None
    launcher: LauncherName | None = None
    steps: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    limit: float | None = None
    stall: float | None = None
    full: bool = False
    in_place: bool = False

    @property
    def of_script(self) -> bool:
        """Tells whether a script is meant: a `.py` file, or another existing file that is no `.toml`."""
        path = Path(self.what)
        return path.suffix == ".py" or (path.is_file() and path.suffix != ".toml")


_OF_SCRIPTS = (
    "plain",
    "devices",
    "change",
    "emulate_link",
    "turns",
    "inspect",
    "trace",
    "limit",
    "stall",
    "steps",
    "env",
)


def suite_of(request: MeasureRequest, spelled: Spelled) -> Suite:
    """Returns the suite; raises a BadRequest that spells options as the caller does."""
    return _script(request, spelled) if request.of_script else _suite(request, spelled)


def _script(request: MeasureRequest, spelled: Spelled) -> Suite:
    from scalewise.plan.adhoc import script_suite

    if request.full:
        raise BadRequest(
            f"{spelled('full')} is for a suite; {Path(request.what)} is a script.", "It is run as it is in any case."
        )
    if request.trace is not None and not request.trace.resolve().parent.is_dir():
        raise BadRequest(f"The folder of {spelled('trace', request.trace)} does not exist.", "Make it first.")
    given = {
        "ranks": request.ranks,
        "repeat": request.repeat,
        "device": request.device,
        "launcher": request.launcher,
        "mode": "python" if request.plain else None,
        "devices": request.devices,
        "changes": _changes(request, spelled),
        "limit_seconds": _seconds(spelled, "limit", request.limit),
        "stall_seconds": _seconds(spelled, "stall", request.stall),
        "turns": request.turns,
        "inspect": request.inspect or request.trace is not None,
        "in_place": request.in_place,
        "steps": request.steps,
        "env": request.env,
    }
    known = {name: value for name, value in given.items() if value is not None}
    return script_suite(Path(request.what), request.args, **known)  # type: ignore[arg-type]


def _changes(request: MeasureRequest, spelled: Spelled) -> tuple[tuple[Change, ...], ...] | None:
    """The arms: the unchanged script, and one for each change; an emulated link is part of all of them."""
    from scalewise.plan.words import parse_changes, parse_link

    everywhere: tuple[Change, ...] = ()
    if request.emulate_link is not None:
        written, example = (spelled("emulate_link", text) for text in (request.emulate_link, "1ms,1GB/s"))
        everywhere = (parse_link(request.emulate_link, written, f"Write it as {example}."),)
    arms = tuple(parse_changes(text) for text in request.change)
    if everywhere and any(one.name == everywhere[0].name for arm in arms for one in arm):
        twice = f"A link is emulated by {spelled('emulate_link')} and by {spelled('change')}, too."
        raise BadRequest(twice, "Say it once.")
    return tuple(everywhere + arm for arm in ((), *arms)) if arms or everywhere else None


def _suite(request: MeasureRequest, spelled: Spelled) -> Suite:
    from scalewise.plan.find import find_suite
    from scalewise.plan.suite import load_suite

    name, path = request.what, find_suite(request.what)
    for option in _OF_SCRIPTS:
        if getattr(request, option):
            raise BadRequest(
                f"{spelled(option)} is for a script; {name} is a suite.", f"Say it in the suite's file: {path}."
            )
    if request.args:
        raise BadRequest(f"{request.args[0]!r} is an argument for a script; {name} is a suite.", f"Put it into {path}.")
    if request.repeat is not None and request.repeat < 1:
        wrong = f"{spelled('repeat', request.repeat)} measures nothing."
        raise BadRequest(wrong, "Give a number of repeats of at least 1.")
    return changed(
        load_suite(path),
        ranks=request.ranks,
        repeat=request.repeat,
        device=request.device,
        launcher=request.launcher,
        full=request.full,
        in_place=request.in_place,
    )


def _seconds(spelled: Spelled, name: str, seconds: float | None) -> float | None:
    if seconds is not None and not 0 < seconds < float("inf"):
        raise BadRequest(f"{spelled(name, f'{seconds:g}')} is not a time.", "Give a number of seconds above 0.")
    return seconds
