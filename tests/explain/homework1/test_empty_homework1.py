"""Without any run every question of homework 1 is a named hole, and nothing raises."""

import pytest

from evidence_factories import make_evidence
from scalewise.explain.homework1 import h1_1, h1_2, h1_3, h1_4, h1_5a, h1_5b, h1_5c

MODULES = (h1_1, h1_2, h1_3, h1_4, h1_5a, h1_5b, h1_5c)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.ROW)
def test_nothing_measured_gives_questions_without_answers(module):
    found = module.answers(make_evidence())
    assert found
    for answer in found:
        assert answer.row == module.ROW
        assert answer.text.startswith("Not answered: ")
        assert answer.question.endswith("?")
