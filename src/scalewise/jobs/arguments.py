"""The arguments of calls from Python: a call checks all of them before anything runs, and reports every problem."""

import functools
import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast, get_args

from scalewise.errors import BadRequest, did_you_mean

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
