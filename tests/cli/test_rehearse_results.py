"""Tests of how a rehearsal is given: its exit code says whether it can be relied on."""

from dataclasses import replace

import pytest

from factories import make_estimate
from rehearsal_specimen import full_answer
from scalewise.cli.exit_codes import rehearsal_code
from scalewise.predict.answer import Checked, RehearsalAnswer

RIGHT = Checked(2, make_estimate(1.0, 0.9, 1.1), make_estimate(1.05, 1.0, 1.1))
WRONG = Checked(2, make_estimate(1.0, 0.9, 1.1), make_estimate(1.2, 1.1, 1.3))


def answer(**changes: object) -> RehearsalAnswer:
    return replace(full_answer(), **{"refused": (), "checks": (RIGHT,), **changes})


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (answer(), 0),
        (answer(checks=()), 0),
        (answer(checks=(RIGHT, WRONG)), 3),
        (answer(check_failed=True), 2),
        (answer(check_failed=True, checks=(WRONG,)), 2),
        (answer(refused=full_answer().refused), 2),
    ],
)
def test_the_exit_code_says_whether_all_was_predicted_and_none_refuted(given, code):
    assert rehearsal_code(given) == code
