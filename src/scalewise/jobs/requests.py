"""The request for a measurement with the suite it means, and the arguments of calls, checked before anything runs."""

import functools
import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast, get_args

from scalewise.errors import BadRequest, did_you_mean
from scalewise.plan.experiment import DeviceChoice, Suite, changed
from scalewise.records.spec import Change, LauncherName

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
U = TypeVar("U")


# How the caller writes an option, with its value where that is to be quoted: `--limit 5`, or `limit=5`.
Spelled = Callable[..., str]


def in_python(name: str, value: object = None) -> str:
    """Returns an argument as it is written in a call: `limit=5`, or only its name where no value is given."""
    return name if value is None else f"{name}={value}"


class Arguments:
    """Reads the arguments of one call and collects the problems with them; `check` reports all of them at once."""

    def __init__(self) -> None:
        self._problems: list[BadRequest] = []

    def wrong(self, sentence: str, hint: str = "") -> None:
        """Notes one more problem."""
        self._problems.append(BadRequest(sentence, hint))

    def attempt(self, read: Callable[[], T], otherwise: U) -> T | U:
        """Returns what `read` returns; notes a BadRequest from it as a problem and returns `otherwise`."""
        try:
            return read()
        except BadRequest as problem:
            self._problems.append(problem)
            return otherwise

    def check(self) -> None:
        """Raises one error with all problems, if there are any."""
        if len(self._problems) == 1:
            raise self._problems[0]
        if self._problems:
            hints = dict.fromkeys(problem.hint for problem in self._problems if problem.hint)
            raise BadRequest(" ".join(_ended(one.sentence) for one in self._problems), "\n".join(hints))

    def path(self, name: str, value: object) -> Path:
        """Reads the path of a file or a folder."""
        if isinstance(value, str | os.PathLike) and str(value):
            return Path(value)
        self.wrong(f"{name}={value!r} is not a path.", f"Give it as text or as a pathlib.Path: {name}='train.py'.")
        return Path()

    def words(self, name: str, value: object) -> tuple[str, ...]:
        """Reads words as a command line would have them; numbers and paths become text."""
        if isinstance(value, Sequence) and not isinstance(value, str | bytes):
            wrong = [one for one in value if isinstance(one, bool) or not isinstance(one, str | int | float | Path)]
            if not wrong:
                return tuple(str(one) for one in value)
            self.wrong(f"{name} holds {wrong[0]!r}, which is no word.", f"Write each word as text: {name}=['1', 'a'].")
            return ()
        self.wrong(f"{name}={value!r} is not a list of words.", f"Split it into words: {name}=['--batch', '64'].")
        return ()

    def flag(self, name: str, value: object) -> bool:
        """Reads True or False."""
        if not isinstance(value, bool):
            self.wrong(f"{name}={value!r} is neither True nor False.")
        return value is True

    def count(self, name: str, value: object, most: int | None = None, least: int = 1) -> int:
        """Reads a whole number from `least` to `most`."""
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= (most or math.inf):
            upper = f" to {most}" if most else " or more"
            self.wrong(f"{name}={value!r} is not a whole number of {least}{upper}.")
            return least
        return value

    def counts(self, name: str, value: object, most: int) -> tuple[int, ...]:
        """Reads one whole number or several, in the order given, none of them twice."""
        several = list(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes) else [value]
        before = len(self._problems)
        found = tuple(self.count(name, one, most) for one in several)
        if not found:
            self.wrong(f"{name} is empty.", f"Give numbers: {name}=[1, 2, 4].")
        if len(self._problems) == before and len(set(found)) < len(found):
            self.wrong(f"{name}={value!r} names a number more than once.")
        return found or (1,)

    def seconds(self, name: str, value: object) -> float:
        """Reads a number of seconds above 0."""
        return self.number(name, value, "a number of seconds")

    def variables(self, name: str, value: object) -> dict[str, str]:
        """Reads environment variables: names, and values that become text."""
        if isinstance(value, Mapping) and all(isinstance(one, str) and one.isidentifier() for one in value):
            return {one: str(text) for one, text in value.items()}
        self.wrong(f"{name}={value!r} sets no variables.", f"Give names and texts: {name}={{'BATCH': '64'}}.")
        return {}

    def number(self, name: str, value: object, what: str = "a number") -> float:
        """Reads a finite number above 0."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            self.wrong(f"{name}={value!r} is not {what} above 0.")
            return 1.0
        return float(value)

    def script(
        self, script: object, args: object, device: object, limit: object, stall: object, out: object, in_place: object
    ) -> dict[str, Any]:
        """Reads the fields of a `ScriptRequest`."""
        return {
            "script": self.path("script", script),
            "args": self.words("args", args),
            "device": self.choice("device", device, DeviceChoice),
            "limit_seconds": self.seconds("limit", limit),
            "stall_seconds": self.seconds("stall", stall),
            "out": self.path("out", out),
            "in_place": self.flag("in_place", in_place),
        }

    def choice(self, name: str, value: object, allowed: Any) -> Any:
        """Reads one of the words of a `Literal`."""
        words = get_args(allowed)
        if value not in words:
            near = did_you_mean(str(value), words)
            listed = ", ".join(map(repr, words))
            self.wrong(f"{name}={value!r} is none of {listed}{'; ' + near if near else '.'}")
            return words[0]
        return value


def public(function: Callable[P, R]) -> Callable[P, R]:
    """Makes a function a call of the public interface: an unknown argument raises BadRequest, as other bad ones do."""
    names = tuple(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args: P.args, **arguments: P.kwargs) -> R:
        unknown = [name for name in arguments if name not in names]
        if unknown:
            asked = [(f"{function.__name__}() takes no {name!r}", did_you_mean(name, names)) for name in unknown]
            said = " ".join(_ended("; ".join(filter(None, one))) for one in asked)
            raise BadRequest(said, f"It takes {', '.join(names)}.")
        return function(*args, **arguments)

    return cast("Callable[P, R]", call)


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "?")) else f"{sentence}."


@dataclass(frozen=True)
class ScriptRequest:
    """The script of a request, and how its runs are made: what all verbs share that run a script more than once."""

    script: Path
    args: tuple[str, ...] = ()
    device: DeviceChoice = "auto"
    limit_seconds: float = 120.0
    stall_seconds: float = 30.0
    out: Path = Path("runs")
    in_place: bool = False

    def suite(self, ranks: tuple[int, ...], **more: Any) -> Suite:
        """Returns the suite that runs the script on these numbers of ranks."""
        from scalewise.plan.adhoc import script_suite

        same = {name: getattr(self, name) for name in ("device", "limit_seconds", "stall_seconds", "in_place")}
        return script_suite(self.script, self.args, ranks=tuple(dict.fromkeys(ranks)), **same, **more)

    def same_script(self) -> dict[str, Any]:
        """Returns these fields by name, for another request about the same script."""
        return {one.name: getattr(self, one.name) for one in fields(ScriptRequest)}


@dataclass(frozen=True)
class MeasureRequest:
    """A script or a suite, with options for measuring it; None stands for the suite's value or the default."""

    what: str
    args: tuple[str, ...] = ()
    ranks: tuple[int, ...] | None = None
    nodes: tuple[int, ...] | None = None
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
        "nodes": request.nodes,
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
        nodes=request.nodes,
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
