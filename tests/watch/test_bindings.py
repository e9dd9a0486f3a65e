"""A function is replaced by whatever name a module holds it, also in a copy of a process that has looked before."""

import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from scalewise.watch import bindings


def first(number: int) -> int:
    return number


def second(number: int) -> int:
    return 2 * number


def third(number: int) -> int:
    return 3 * number


@pytest.fixture
def module(monkeypatch) -> Iterator[SimpleNamespace]:
    """A module that holds the function by a name of its own; nothing was looked through before or is afterwards."""
    monkeypatch.setattr(bindings, "_places", {})
    monkeypatch.setattr(bindings, "_newest", "")
    there = SimpleNamespace(alias=first, other=3)
    monkeypatch.setitem(sys.modules, "a_package.inner", there)
    yield there


@pytest.mark.parametrize("looked", [False, True])
def test_a_function_is_replaced_by_any_name_within_the_package_alone(module, monkeypatch, looked) -> None:
    outside = SimpleNamespace(alias=first)
    monkeypatch.setitem(sys.modules, "a_package2", outside)
    if looked:
        bindings.look_through_modules()
    bindings.put([(first, second)], within="a_package")
    assert module.alias is second and module.other == 3
    assert outside.alias is first


@pytest.mark.parametrize("looked", [False, True])
def test_what_was_put_there_is_found_and_replaced_again(module, looked) -> None:
    if looked:
        bindings.look_through_modules()
    bindings.put([(first, second)], within="a_package")
    bindings.put([(second, third)], within="a_package")
    assert module.alias is third


def test_what_somebody_else_has_put_there_already_is_replaced_with_the_rest(module, monkeypatch) -> None:
    owner = SimpleNamespace(alias=first)
    monkeypatch.setitem(sys.modules, "a_package", owner)
    bindings.look_through_modules()
    owner.alias = second
    bindings.put([(first, second)], within="a_package")
    bindings.put([(second, third)], within="a_package")
    assert (owner.alias, module.alias) == (third, third)


def test_a_module_that_came_after_the_look_is_looked_at_and_one_that_was_there_is_not(module, monkeypatch) -> None:
    bindings.look_through_modules()
    module.later = first  # bound after the look: a copy of the process, which binds nothing before, has no such name
    late = SimpleNamespace(alias=first)
    monkeypatch.setitem(sys.modules, "a_package.late", late)
    bindings.put([(first, second)], within="a_package")
    assert (module.alias, module.later, late.alias) == (second, first, second)


def test_a_name_that_has_come_to_mean_something_else_is_left_alone(module) -> None:
    bindings.look_through_modules()
    module.alias = third
    bindings.put([(first, second)], within="a_package")
    assert module.alias is third


def test_what_is_no_module_is_passed_over(module, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "a_package.strange", SimpleNamespace)  # a class: its namespace cannot be written
    monkeypatch.setitem(sys.modules, "a_package.none", None)
    bindings.put([(first, second)], within="a_package")
    assert module.alias is second
