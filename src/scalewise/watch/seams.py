"""One seam for each call of torch that the watcher wraps: it is replaced once, and every concern subscribes to it.

A concern is a file below `watch/`. The folder that it lies in decides its place in `ORDER`, from the inside out: a
stand-in lies beneath the ordinary hooks, an examination outside them, and a change around everything. In one folder,
who subscribes later lies further out. The ordinary hooks (`hooks/`) keep wrappers of their own, as they are timed: a
seam takes what it finds as the original, and a call that a hook has wrapped has one seam beneath it and one around it.

Who only looks subscribes with `before`, `after` or `during`. There is one guard for all of these: a failure is noted,
and the original is called once, with the arguments it was given, whatever happens. Who changes a call subscribes with
`around`, and calls what lies further in. What the original raises goes through as it is.
"""

import functools
import os
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from types import FrameType, FunctionType
from typing import Any, Literal, Protocol

from scalewise.watch import bindings

# The layers, from the inside out: files and folders below `watch/`.
ORDER = (
    "exit_workarounds", "redirect", "rehearsal", "emulation", "hooks", "inspection", "step_profile", "examination",
    "gradient_rows", "parity", "strategy", "changes",
)  # fmt: skip
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep

Given = Mapping[str, Any]
Looks = Generator[None, Any, None]
Act = Callable[..., Any]
How = Literal["before", "during", "around", "replace"]


class Guard(Protocol):
    """A recorder or a notebook: decides whether a concern still looks, and is told when it has failed."""

    @property
    def on(self) -> bool:
        """Returns whether this process is still watched."""

    def broke(self, where: str, error: Exception) -> None:
        """Notes a failure of ours."""


class Outermost:
    """A mark shared by calls that are made of one another: only the outermost one is looked at."""

    under_way = False


@dataclass(frozen=True, eq=False)
class Subscriber:
    """One concern at one call."""

    act: Act
    how: How
    guard: Guard | None
    outermost: Outermost | None = None
    written: Act | None = None  # the concern's own function, if the act is not

    @property
    def concern(self) -> str:
        """The file that the act is written in, as `records/wrapped.py` names it."""
        written: Any = self.written or self.act
        file: str = written.__globals__["__file__"]
        return file.removeprefix(_HERE).removesuffix(".py")

    @property
    def layer(self) -> int:
        """The place in `ORDER`."""
        return ORDER.index(self.concern.partition("/")[0])

    def begin(self, *given: Any) -> Looks | None:
        """Looks before the call; what is returned goes on when the call is over."""
        guard: Any = self.guard
        try:
            if guard.on:
                looks = self.act(*given)
                if self.how == "during":
                    next(looks)
                    return looks  # type: ignore[no-any-return]
        except StopIteration:
            pass  # it had nothing to wait for
        except Exception as error:
            self._broke(error)
        return None

    def end(self, looks: Looks, result: Any) -> None:
        """Goes on with what the call has returned."""
        try:
            looks.send(result)
        except StopIteration:
            pass
        except Exception as error:
            self._broke(error)

    def give_up(self, looks: Looks) -> None:
        """Ends a look at a call that has raised."""
        try:
            looks.close()
        except Exception as error:
            self._broke(error)

    def _broke(self, error: Exception) -> None:
        guard: Any = self.guard
        guard.broke((self.written or self.act).__name__.strip("_").replace("_", " "), error)


class Seam:
    """One call of torch that is wrapped, with those who subscribed to it from the inside out."""

    def __init__(self, original: Act) -> None:
        self.original = self.call = original
        self.subscribers: list[Subscriber] = []
        self.taken_off: Callable[[], None] | None = None  # puts the original back where the call was replaced

    def before(self, guard: Guard, act: Callable[[tuple[Any, ...], Given], object]) -> Subscriber:
        """Has the act called with the arguments before each call."""
        return self._add(Subscriber(act, "before", guard))

    def after(self, guard: Guard, act: Callable[[tuple[Any, ...], Given, Any], object]) -> Subscriber:
        """Has the act called with the arguments and the result after each call that returns."""

        def looks(args: tuple[Any, ...], kwargs: Given) -> Looks:
            act(args, kwargs, (yield))

        return self._add(Subscriber(looks, "during", guard, written=act))

    def during(
        self, guard: Guard, act: Callable[[tuple[Any, ...], Given], Looks], outermost: Outermost | None = None
    ) -> Subscriber:
        """Has the act, a generator, run to its `yield` before each call and go on with the result after it.

        If the call raises, the generator is closed. It may return before its `yield` if there is nothing to see.
        """
        return self._add(Subscriber(act, "during", guard, outermost))

    def around(self, act: Act) -> Subscriber:
        """Has the act called in place of the call, with what lies further in as its first argument; it has no guard."""
        return self._add(Subscriber(act, "around", None))

    def replace(self, act: Act) -> Subscriber:
        """Has the act called in place of the call and of all that lies further in."""
        return self._add(Subscriber(act, "replace", None))

    def leave(self, subscriber: Subscriber) -> None:
        """Ends a subscription; with the last one the call is as it was, unless others hold it elsewhere."""
        self.subscribers.remove(subscriber)
        self._renew()
        if not self.subscribers and self.taken_off is not None:
            self.taken_off()

    def _add(self, subscriber: Subscriber) -> Subscriber:
        self.subscribers.append(subscriber)
        self.subscribers.sort(key=lambda one: one.layer)  # in one layer, the later one lies further out
        self._renew()
        return subscriber

    def _renew(self) -> None:
        call = self.original
        for looks, group in groupby(self.subscribers, lambda one: one.guard is not None):
            if looks:
                call = functools.partial(_looked_at, tuple(group)[::-1], call)
            else:
                for one in group:
                    call = one.act if one.how == "replace" else functools.partial(one.act, call)
        self.call = call


def _looked_at(watching: tuple[Subscriber, ...], call: Act, /, *args: Any, **kwargs: Any) -> Any:
    """Calls once, and tells those who look, the outermost first; when the call is over, the innermost first."""
    begun: list[tuple[Subscriber, Looks | None]] = []
    for one in watching:
        mark = one.outermost
        if mark is None or not mark.under_way:
            looks = one.begin(args, kwargs)
            if mark is not None:
                mark.under_way = True
            if looks is not None or mark is not None:
                begun.append((one, looks))
    if not begun:
        return call(*args, **kwargs)
    try:
        result = call(*args, **kwargs)
    except BaseException:
        for one, looks in reversed(begun):
            _over(one)
            if looks is not None:
                one.give_up(looks)
        raise
    for one, looks in reversed(begun):
        _over(one)
        if looks is not None:
            one.end(looks, result)
    return result


def _over(one: Subscriber) -> None:
    if one.outermost is not None:
        one.outermost.under_way = False


# The seam of each function that is one of ours; others may carry its attributes, as `functools.wraps` copies them.
_seams: dict[Act, Seam] = {}


def seam(owner: Any, name: str, also: Iterable[Any] = (), within: str = "") -> Seam:
    """The seam of what `owner` has by this name; if it has none yet, the call is wrapped now.

    `also`: other places of the same name that hold the same thing; `within`: a package of which every module is looked
    through, for any name of it.
    """
    return seams(owner, (name,), also, within)[name]


def seams(owner: Any, names: Iterable[str], also: Iterable[Any] = (), within: str = "") -> dict[str, Seam]:
    """The seams of several calls; those names that `owner` does not have are left out."""
    found: dict[str, Seam] = {}
    replaced: list[tuple[Any, Act]] = []
    for name in names:
        there = getattr(owner, name, None)
        if there is None:
            continue
        entry = there if seam_of(there) else _entry(there)
        found[name] = _seams[entry]
        original = _seams[entry].original
        replaced.append((original, entry))
        if entry is not there:
            setattr(owner, name, entry)
            if not also and not within:
                _seams[entry].taken_off = functools.partial(_take_off, owner, name, entry)
        for other in also:
            if getattr(other, name, None) is original:
                setattr(other, name, entry)
    if within:
        bindings.put(replaced, within)
    return found


def _take_off(owner: Any, name: str, entry: Act) -> None:
    if getattr(owner, name, None) is entry:  # else somebody has wrapped it once more
        setattr(owner, name, _seams[entry].original)


def _entry(original: Act) -> Act:
    wrapped = Seam(original)

    @functools.wraps(original)
    def entry(*args: Any, **kwargs: Any) -> Any:
        return wrapped.call(*args, **kwargs)

    _seams[entry] = wrapped
    return entry


def seam_of(function: Any) -> Seam | None:
    """The seam that a function is the outside of; None for any other."""
    return _seams.get(function) if isinstance(function, FunctionType) else None


def caller() -> FrameType:
    """The frame that made the call which somebody is now looking at or standing in for."""
    frame: Any = sys._getframe(1)
    while frame.f_code is not _ENTRY_CODE:
        frame = frame.f_back
    return frame.f_back  # type: ignore[no-any-return]


_ENTRY_CODE = _entry(caller).__code__


class StepHooks:
    """The hooks that torch calls around the step of every optimizer: one of each is registered, for all who subscribe.

    What must come before the ordinary hooks subscribes with `first`.
    """

    def __init__(self) -> None:
        self._subscribers: dict[tuple[str, bool], list[Subscriber]] = {}

    def before(self, guard: Guard, act: Callable[[Any, Any, Any], None], first: bool = False) -> None:
        """Has the act called with the optimizer and its step's arguments before each step."""
        self._add("pre", first, Subscriber(act, "before", guard))

    def after(self, guard: Guard, act: Callable[[Any, Any, Any], None]) -> None:
        """Has the act called when a step has returned."""
        self._add("post", False, Subscriber(act, "before", guard))

    def _add(self, when: str, first: bool, subscriber: Subscriber) -> None:
        subscribers = self._subscribers.setdefault((when, first), [])
        if not subscribers:
            self._register(when, first, subscribers)
        subscribers.append(subscriber)
        subscribers.sort(key=lambda one: one.layer)

    def _register(self, when: str, first: bool, subscribers: list[Subscriber]) -> None:
        from torch.optim import optimizer as optim

        def steps(optimizer: Any, args: Any, kwargs: Any) -> None:
            for one in subscribers:
                one.begin(optimizer, args, kwargs)

        handle: Any = getattr(optim, f"register_optimizer_step_{when}_hook")(steps)
        if first:
            hooks: Any = optim._global_optimizer_pre_hooks
            hooks.move_to_end(handle.id, last=False)


step_hooks = StepHooks()
