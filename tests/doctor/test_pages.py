"""Tests of the checks in words: the list, the explanation of one, and the page in docs/."""

import ast
from pathlib import Path

import pytest

from scalewise.doctor.finding import rules
from scalewise.doctor.pages import checks_page, explain_text, list_text
from scalewise.errors import BadRequest

CHECKS = [rule.check for rule in rules()]
PAGE = Path(__file__).parents[2] / "docs" / "checks.md"


def test_the_page_in_docs_is_what_the_checks_say():
    assert PAGE.read_text(encoding="utf-8") == checks_page(), "make checks-page writes it anew"


def test_the_list_names_every_check_in_80_columns():
    text = list_text()
    lines = text.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert all(f"  {check.name} ({check.severity})" in lines for check in CHECKS)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_a_check_explains_itself_whole(check):
    text = explain_text(check.name)
    words = " ".join(text.split())
    for part in (check.detects, check.why, check.example, check.fix, check.needs, check.silent):
        assert " ".join(part.split()) in words
    assert check.detects.endswith(".") and check.why.endswith(".")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_the_words_of_a_check_are_there_and_its_code_is_code(check):
    assert check.detects and check.why and check.example and check.fix and check.needs
    assert not check.needs.endswith("."), "pages go on after it"
    assert not check.needs[0].isupper(), "pages begin the sentence: `Needs two optimizer steps.`"
    for code in (check.example, check.fix):
        ast.parse(code)


def test_names_of_checks_are_the_names_of_their_files():
    files = {rule.examine.__module__.rsplit(".", 1)[1].replace("_", "-") for rule in rules()}
    assert files == {check.name for check in CHECKS}


def test_an_unknown_name_is_refused_with_the_nearest_one():
    with pytest.raises(BadRequest) as refused:
        explain_text("same-dta")
    assert refused.value.sentence == "There is no check 'same-dta'."
    assert refused.value.hint == "Did you mean 'same-data'?"
    with pytest.raises(BadRequest) as lost:
        explain_text("zzzzzz")
    assert "--list" in lost.value.hint
