"""A call is wrapped once, and all who subscribe to it are asked in the declared order."""

import inspect
from pathlib import Path
from types import SimpleNamespace

import pytest

from scalewise.watch import seams as module
from scalewise.watch.seams import ORDER, Outermost, Seam, caller, seam, seam_of, seams


class Noting:
    """A guard that keeps what broke."""

    def __init__(self) -> None:
        self.on = True
        self.broken: list[tuple[str, str]] = []

    def broke(self, where: str, error: Exception) -> None:
        self.broken.append((where, f"{type(error).__name__}: {error}"))


@pytest.fixture
def guard() -> Noting:
    return Noting()


@pytest.fixture
def owner() -> SimpleNamespace:
    def double(number: int, *, more: int = 0) -> int:
        """Doubles."""
        if number < 0:
            raise ValueError("too small")
        return 2 * number + more

    return SimpleNamespace(double=double)


def act_of(layer, act):
    """The act as if it were written in a file of that layer."""
    code = {"__file__": f"{module._HERE}{layer}.py", "__builtins__": __builtins__}
    return type(act)(act.__code__, {**act.__globals__, **code}, act.__name__, act.__defaults__, act.__closure__)


def looker(layer, told):
    def look(args, kwargs):
        told.append(f"{layer} before")
        result = yield
        told.append(f"{layer} after {result}")

    return act_of(layer, look)


def wrapper(layer, told):
    def wrap(call, *args, **kwargs):
        told.append(f"{layer} in")
        result = call(*args, **kwargs)
        told.append(f"{layer} out")
        return result

    return act_of(layer, wrap)


def test_the_declared_order_is_the_one_at_work_whoever_subscribes_first(owner, guard) -> None:
    told: list[str] = []
    double = seam(owner, "double")
    for layer in ("changes", "rehearsal", "examination", "redirect", "inspection"):
        double.around(wrapper(f"{layer}/part", told))
    assert owner.double(3) == 6
    inward = [line.partition("/")[0] for line in told if line.endswith(" in")]
    assert inward == sorted(inward, key=ORDER.index, reverse=True)
    assert [line.partition("/")[0] for line in told if line.endswith("out")] == inward[::-1]
    assert len(inward) == 5


def test_those_who_look_see_what_a_change_further_out_has_made_of_the_call(owner, guard) -> None:
    seen = []

    def look(args, kwargs):
        seen.append((args, kwargs))

    def more(call, number, **kwargs):
        return call(number + 1, **kwargs) + 100

    double = seam(owner, "double")
    double.around(act_of("changes/one", more))
    double.before(guard, act_of("examination/one", look))
    assert owner.double(1, more=1) == 105
    assert seen == [((2,), {"more": 1})]


def test_in_one_layer_who_comes_later_lies_further_out(owner, guard) -> None:
    told: list[str] = []
    double = seam(owner, "double")
    for name in ("a", "b"):
        double.during(guard, looker(f"examination/{name}", told))
    owner.double(1)
    assert told == [
        "examination/b before", "examination/a before", "examination/a after 2", "examination/b after 2",
    ]  # fmt: skip


def test_a_call_is_wrapped_once_and_looks_like_itself(owner, guard) -> None:
    original = owner.double
    first = seam(owner, "double")
    inside = owner.double
    assert seam(owner, "double") is first and owner.double is inside
    assert inspect.unwrap(owner.double) is original
    assert (owner.double.__doc__, owner.double.__name__) == ("Doubles.", "double")
    assert seam_of(owner.double) is first and seam_of(original) is None and seam_of(3) is None


def test_what_somebody_has_put_around_a_seam_is_taken_as_the_original(owner, guard) -> None:
    told: list[str] = []
    seam(owner, "double").around(wrapper("redirect/part", told))
    beneath = owner.double

    def hook(*args, **kwargs):
        told.append("hook")
        return beneath(*args, **kwargs)

    owner.double = hook
    seam(owner, "double").around(wrapper("examination/part", told))
    owner.double(1)
    assert told[:3] == ["examination/part in", "hook", "redirect/part in"]


def test_a_name_that_is_not_there_has_no_seam(owner) -> None:
    assert list(seams(owner, ("double", "triple"))) == ["double"]
    with pytest.raises(KeyError):
        seam(owner, "triple")


def test_every_name_of_the_same_thing_is_replaced(owner, monkeypatch) -> None:
    place = SimpleNamespace(double=owner.double, other=3)
    original = owner.double
    monkeypatch.setitem(module.sys.modules, "a_package", SimpleNamespace(twice=original))
    monkeypatch.setitem(module.sys.modules, "a_package.inner", SimpleNamespace(double=original, none=None))
    monkeypatch.setitem(module.sys.modules, "a_package2", SimpleNamespace(double=original))
    seam(owner, "double", also=[place], within="a_package")
    assert place.double is owner.double is not original
    assert module.sys.modules["a_package"].twice is owner.double
    assert module.sys.modules["a_package.inner"].double is owner.double
    assert module.sys.modules["a_package2"].double is original


@pytest.mark.parametrize("when", ["before", "after", "during, first", "during, then"])
def test_a_failure_of_ours_is_noted_and_the_original_is_called_once_as_it_was_asked(owner, guard, when) -> None:
    calls = []

    def count(call, *args, **kwargs):
        calls.append((args, kwargs))
        return call(*args, **kwargs)

    def fails(*given):
        raise ZeroDivisionError("a fault of the watcher")

    def fails_first(args, kwargs):
        fails()
        yield

    def fails_then(args, kwargs):
        yield
        fails()

    double = seam(owner, "double")
    double.around(act_of("redirect/one", count))
    how = {"before": double.before, "after": double.after}.get(when, double.during)
    act = {"during, first": fails_first, "during, then": fails_then}.get(when, fails)
    how(guard, act_of("examination/one", act))
    assert owner.double(2, more=1) == 5
    assert calls == [((2,), {"more": 1})]
    assert guard.broken == [(act.__name__.replace("_", " "), "ZeroDivisionError: a fault of the watcher")]


def test_a_look_may_decide_that_there_is_nothing_to_see(owner, guard) -> None:
    def look(args, kwargs):
        return
        yield

    seam(owner, "double").during(guard, act_of("examination/one", look))
    assert owner.double(2) == 4
    assert guard.broken == []


def test_nobody_looks_once_the_guard_is_off(owner, guard) -> None:
    told: list[str] = []
    seam(owner, "double").during(guard, looker("examination/one", told))
    guard.on = False
    assert owner.double(2) == 4 and told == []


def test_what_the_original_raises_goes_through_and_looks_are_ended(owner, guard) -> None:
    told = []

    def look(args, kwargs):
        try:
            yield
            told.append("returned")
        finally:
            told.append("over")

    def fails_at_the_end(args, kwargs):
        try:
            yield
        finally:
            raise ZeroDivisionError("once more")

    double = seam(owner, "double")
    double.during(guard, act_of("examination/one", look))
    double.during(guard, act_of("examination/two", fails_at_the_end))
    with pytest.raises(ValueError, match="too small") as caught:
        owner.double(-1)
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    assert told == ["over"]
    assert guard.broken == [("fails at the end", "ZeroDivisionError: once more")]


def test_arguments_that_do_not_fit_are_refused_by_the_original_itself(owner, guard) -> None:
    told: list[str] = []
    seam(owner, "double").during(guard, looker("examination/one", told))
    with pytest.raises(TypeError, match=r"double\(\) missing 1 required"):
        owner.double()


def test_calls_inside_one_another_are_looked_at_once(guard) -> None:
    told: list[str] = []
    place = SimpleNamespace(inner=lambda: 1)
    place.outer = lambda: place.inner() + 1
    mark = Outermost()
    for name, one in seams(place, ("inner", "outer")).items():
        one.during(guard, looker(f"examination/{name}", told), mark)
    place.outer()
    place.inner()
    assert [line for line in told if "before" in line] == ["examination/outer before", "examination/inner before"]


def test_the_mark_is_taken_away_even_if_the_call_raises(guard) -> None:
    told: list[str] = []
    place = SimpleNamespace(fails=lambda: 1 / 0)
    seam(place, "fails").during(guard, looker("examination/one", told), Outermost())
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            place.fails()
    assert len(told) == 2


def test_a_subscription_can_end(owner, guard) -> None:
    told: list[str] = []
    double = seam(owner, "double")
    double.during(guard, looker("examination/one", told))
    other = double.during(guard, looker("examination/two", told))
    double.leave(other)
    owner.double(1)
    assert told == ["examination/one before", "examination/one after 2"]


def test_the_caller_is_found_from_within_any_layer(owner, guard) -> None:
    found = []

    def look(args, kwargs):
        found.append(caller().f_code.co_name)

    def wrap(call, *args):
        found.append(caller().f_code.co_name)
        return call(*args)

    double = seam(owner, "double")
    double.before(guard, act_of("examination/one", look))
    double.around(act_of("changes/one", wrap))
    double.before(guard, act_of("changes/one", look))
    owner.double(1)
    assert found == ["test_the_caller_is_found_from_within_any_layer"] * 3


def test_a_method_is_bound_as_before(guard) -> None:
    class Thing:
        def own(self):
            return self

    told: list[str] = []
    seam(Thing, "own").during(guard, looker("examination/one", told))
    thing = Thing()
    assert thing.own() is thing and Thing.own(thing) is thing and Thing.own(self=thing) is thing


def test_a_file_outside_every_layer_cannot_subscribe(owner) -> None:
    with pytest.raises(ValueError, match="not in tuple"):
        Seam(owner.double).around(act_of("recorder", lambda call: call()))


def test_nothing_but_seams_and_the_timed_hooks_wrap_a_call_of_torch() -> None:
    watch = Path(module.__file__).parent
    wraps = {
        str(path.relative_to(watch))
        for path in watch.rglob("*.py")
        if "@functools.wraps(" in path.read_text(encoding="utf-8")
    }
    by_hand = {name for name in wraps if not name.startswith("hooks/")}
    # Of Python's own functions that warn and move files, and of this watcher's own recorder.
    own = {"seams.py", "warned_lines.py", "moved_folders.py", "inspection/device_use.py"}
    # What a comparison of ranks is made of came later, and is still to move.
    still = {"parity/sources.py"}
    assert by_hand <= own | still and own <= by_hand


def test_when_the_last_subscriber_leaves_the_call_is_as_it_was(owner):
    original = owner.double
    double = seam(owner, "double")
    one, other = (double.around(act_of("changes", lambda call, *args: call(*args) + 1)) for _ in range(2))
    double.leave(one)
    assert owner.double(4) == 9
    double.leave(other)
    assert owner.double is original
    seam(owner, "double").around(act_of("changes", lambda call, *args: call(*args) + 2))
    assert owner.double(4) == 10


def test_a_call_that_somebody_has_wrapped_once_more_stays_wrapped(owner):
    double = seam(owner, "double")
    one = double.around(act_of("changes", lambda call, *args: call(*args) + 1))
    inner = owner.double
    owner.double = theirs = lambda number: inner(number)
    double.leave(one)
    assert owner.double is theirs and owner.double(4) == 8
