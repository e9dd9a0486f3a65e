"""What a user can cause: a request that cannot be done, told with what to do next; or nobody left to tell."""

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
    """Whoever read the output has stopped (`| head`): nothing is left to say."""


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """A short question naming the nearest allowed word, or nothing when none is near."""
    near = get_close_matches(word, list(allowed), n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else ""
