"""An answer to a question of the course, computed from the numbers of one suite."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """A question, what the numbers say, and the rows they come from."""

    row: str  # of the course: H1.2
    question: str
    text: str  # plain sentences, figures with their intervals
    condition: (
        str  # the rule that chose this answer over its opposite: `speedup at 2 ranks < 1.9 (interval below ideal)`
    )
    rests_on: tuple[str, ...]  # table ids, or the names of runs


def unanswered(row: str, question: str, missing: str) -> Answer:
    """The answer where the numbers are not there; names the hole."""
    return Answer(row, question, f"Not answered: {missing}.", "the numbers it needs are missing", ())
