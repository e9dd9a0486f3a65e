"""The three codes of homework 2: their files, their names in tables, and the points that measured them."""

from collections.abc import Mapping

from scalewise.analysis.evidence import Evidence
from scalewise.course.measured import Point, point

ACCUMULATION = "practical7_accumulation"
MIXED = "practical7_amp"
BOTH = "practical5_single"
CODES = (ACCUMULATION, MIXED, BOTH)
NAMES: Mapping[str, str] = {ACCUMULATION: "Code 1", MIXED: "Code 2", BOTH: "Code 3"}
MEANS: Mapping[str, str] = {ACCUMULATION: "accumulation", MIXED: "AMP", BOTH: "accumulation + AMP"}
REMOVED = "remove_communication"


def code_point(evidence: Evidence, code: str, intervention: str = "none") -> Point:
    """Returns one code at the ACCUM_STEPS of the comparison."""
    return point(evidence, f"{NAMES[code]}: {MEANS[code]}", "codes", intervention=intervention, code=code)
