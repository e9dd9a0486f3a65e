"""A drawing inside an HTML page."""

import re

from specimen import ANATOMY, NASTY, SPEEDUP

from scalewise.report.canvas import Drawing, Hit
from scalewise.report.document import Figure
from scalewise.report.draw import draw
from scalewise.report.svg_page import svg_markup


def test_every_reference_finds_its_target_and_two_figures_share_no_id():
    first = svg_markup(draw(Figure("a", "", "", SPEEDUP)), "f1", "a")
    second = svg_markup(draw(Figure("b", "", "", ANATOMY)), "f2", "b")
    ids = [set(re.findall(r' id="([^"]+)"', one)) for one in (first, second)]

    for markup, own in zip((first, second), ids, strict=True):
        assert set(re.findall(r"(?:url\(#|xlink:href=\"#)([^\")]+)", markup)) <= own
    assert not ids[0] & ids[1]


def test_what_hovering_shows_is_escaped():
    markup = svg_markup(Drawing("<svg></svg>", 10, 10, (Hit(1, 2, 3, 4, NASTY),)), "f1", NASTY)
    assert "<script" not in markup and "&lt;script&gt;" in markup and "\x1b" not in markup
