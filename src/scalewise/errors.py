"""The one error a user can cause: a sentence with the offending value, and what to do next."""

from collections.abc import Iterable
from difflib import get_close_matches


class BadRequest(Exception):
    """Something the user asked for cannot be done; shown without a traceback, exit code 1."""

    def __init__(self, sentence: str, hint: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """A short question naming the nearest allowed word, or nothing when none is near."""
    near = get_close_matches(word, list(allowed), n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else ""
