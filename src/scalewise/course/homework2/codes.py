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
PLAIN, BFLOAT = "plain", "bfloat16"  # experiments beside the three codes: float32 DDP, and Code 3 in bfloat16


def code_point(evidence: Evidence, code: str, change: str = "none") -> Point:
    """Returns one code at the ACCUM_STEPS of the comparison."""
    return point(evidence, f"{NAMES[code]}: {MEANS[code]}", "codes", change=change, code=code)


def beside_point(evidence: Evidence, experiment: str, change: str = "none") -> Point:
    """Float32 DDP without accumulation, or Code 3 in bfloat16; folders of before these were measured have neither."""
    label = {PLAIN: "float32 DDP", BFLOAT: "Code 3 in bfloat16"}[experiment]
    return point(evidence, label, experiment, change=change)


def product_precision(one: Point) -> str:
    """Returns the precision in which products were seen to be computed, such as `float16`; empty if none was seen."""
    if one.row is None or not one.row.precision:
        return ""
    mixed = [word.removeprefix("autocast ") for word in one.row.precision if word.startswith("autocast ")]
    return mixed[0] if mixed else one.row.precision[0]
