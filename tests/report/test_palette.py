"""Colours: one meaning, one colour; neighbours differ in grey; the dark page has one for each."""

from itertools import combinations, pairwise
from pathlib import Path

import scalewise.report
from scalewise.report.canvas import MEANINGS, SERIES, VARIABLES, colours_of


def grey(colour: str) -> float:
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_neighbours_of_a_stack_differ_in_grey():
    assert all(abs(grey(a) - grey(b)) > 0.12 for a, b in pairwise(SERIES))


def test_no_two_meanings_are_one_grey_in_print():
    colours = set(MEANINGS.values())
    assert all(abs(grey(a) - grey(b)) > 0.12 for a, b in combinations(colours, 2))


def test_the_parts_of_a_models_step_are_told_apart_in_grey():
    parts = colours_of(["fixed", "computing", "communication", "not explained"]).values()
    assert all(abs(grey(a) - grey(b)) > 0.12 for a, b in combinations(parts, 2))


def test_a_meaning_keeps_its_colour_in_any_company():
    assert colours_of(["x", "backward"])["backward"] == colours_of(["backward", "forward", "y"])["backward"]
    mixed = colours_of(["forward", "x", "backward", "y"])
    assert len(set(mixed.values())) == 4


def test_every_colour_has_its_variable_in_light_and_in_dark():
    page = (Path(scalewise.report.__file__).parent / "page.html").read_text(encoding="utf-8")
    assert all(page.count(f"{variable}: #") >= 3 for variable in VARIABLES.values())
