"""Errors that a user can cause: a request that cannot be done, and an output that nobody reads any more."""

from collections.abc import Iterable
from difflib import get_close_matches


class BadRequest(Exception):
    """Something the user asked for cannot be done: exit code 1 of the command, and `scalewise.Error` in Python."""

    def __init__(self, sentence: str, hint: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint
        if hint:
            self.add_note(hint)  # stands below the sentence in a traceback


class ReaderGone(Exception):
    """The end of output because its reader has stopped (`| head`); nothing more is to be written."""


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """A short question that names the nearest allowed word; empty if none is near."""
    near = get_close_matches(word, list(allowed), n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else ""
