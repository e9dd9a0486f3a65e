"""Whose failure it is: told from the whole traceback, before the watcher's frames are cut from it."""

from types import SimpleNamespace

import pytest

from scalewise.records.wrapped import CONCERNS
from scalewise.watch.crash import for_the_script, raised_by, strip_error
from scalewise.watch.hooks.backward import _watched
from scalewise.watch.seams import seam

OWN = ("hooks/backward",)
ASLEEP = SimpleNamespace(awake=False)


def wrapped(function, recorder=ASLEEP):
    """The function with one of the watcher's own wrappers around it, and a seam around that."""
    owner = SimpleNamespace(function=_watched(recorder, function, reads_loss=False))
    seam(owner, "function")
    return owner.function


def raised(call):
    with pytest.raises(BaseException) as caught:
        call()
    return caught.value


def refuse(text):
    raise ValueError(text)


def test_an_error_that_one_of_our_functions_raises_is_ours() -> None:
    error = raised(lambda: wrapped(len, recorder=None)([]))

    assert raised_by(error) == OWN
    assert strip_error(error, error.__traceback__) is not None
    assert raised_by(error) == (), "once the frames are cut, nobody can tell"


def test_an_error_that_came_from_ours_is_ours() -> None:
    def library():
        try:
            wrapped(len, recorder=None)([])
        except TypeError as error:
            raise RuntimeError("the stage failed") from error

    assert raised_by(raised(library)) == OWN


@pytest.mark.parametrize("call", [lambda: wrapped(refuse)("no"), lambda: wrapped(len)(3)], ids=["Python", "C"])
def test_an_error_of_what_was_called_through_us_is_not_ours(call) -> None:
    assert raised_by(raised(call)) == ()


def test_a_call_that_a_wrapper_refuses_is_blamed_on_those_who_wrap_that_function() -> None:
    """Python raises it in the caller's frame, with the name of the function that was wrapped."""

    def grad(tensors):
        return tensors

    grad.__qualname__ = "grad"
    error = raised(lambda: grad(outputs=1))
    present = [CONCERNS["hooks/backward"], CONCERNS["hooks/data"]]

    assert raised_by(error, present) == ("hooks/backward",)
    assert raised_by(error, [CONCERNS["hooks/data"]]) == (), "it was left out, so it is the script's own mistake"


def test_arguments_that_do_not_fit_are_never_a_seams_fault() -> None:
    owner = SimpleNamespace(grad=lambda tensors: tensors)
    owner.grad.__qualname__ = "grad"
    seam(owner, "grad")
    error = raised(lambda: owner.grad(outputs=1))

    assert raised_by(error, [CONCERNS["hooks/data"]]) == ()
    assert raised_by(error, [CONCERNS["hooks/backward"]]) == ("hooks/backward",), "one of those who may change them"


def test_an_interruption_and_what_we_raise_in_torchs_place_are_not_ours() -> None:
    marked = for_the_script(ValueError("as torch says"))

    def refuse_as_torch(*args):
        raise marked

    assert raised_by(raised(lambda: wrapped(refuse_as_torch)())) == ()
    assert raised_by(KeyboardInterrupt()) == ()
