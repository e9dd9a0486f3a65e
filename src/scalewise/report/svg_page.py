"""Embeds a drawing in an HTML page: colours become variables, ids unique, and points get tooltips."""

import re
from html import escape

from scalewise.report.canvas import Drawing
from scalewise.report.palette import VARIABLES
from scalewise.report.view import plain_text


def svg_markup(drawing: Drawing, prefix: str, title: str) -> str:
    """Returns inline SVG; `prefix` makes its ids differ from those of other figures."""
    body = drawing.svg[drawing.svg.index(">") + 1 : drawing.svg.rindex("</svg>")]
    body = _own_names(body, prefix)
    for colour, variable in VARIABLES.items():
        body = body.replace(colour, f"var({variable},{colour})")
    box = f"0 0 {drawing.width_points:g} {drawing.height_points:g}"
    hits = "".join(
        f'<rect class="hit" x="{hit.x:.1f}" y="{hit.y:.1f}" width="{hit.width:.1f}" height="{hit.height:.1f}" '
        f'data-tip="{escape(plain_text(hit.text))}"><title>{escape(plain_text(hit.text))}</title></rect>'
        for hit in drawing.hits
    )
    return (
        f'<svg class="plot" role="img" aria-label="{escape(plain_text(title))}" viewBox="{box}" '
        f'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">{body}<g>{hits}</g></svg>'
    )


def _own_names(body: str, prefix: str) -> str:
    """Returns the SVG with prefixed ids; ids that nothing refers to are removed."""
    used = set(re.findall(r"(?:url\(#|xlink:href=\"#)([^\")]+)", body))
    body = re.sub(
        r' id="([^"]+)"', lambda found: f' id="{prefix}-{found[1]}"' if found[1] in used else "", body
    )  # fmt: skip
    return re.sub(r'(url\(#|xlink:href="#)', rf"\g<1>{prefix}-", body)
