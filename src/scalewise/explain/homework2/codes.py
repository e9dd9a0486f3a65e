"""The three codes of homework 2: their files, their names in tables, and the arms that measured them."""

from collections.abc import Mapping

from scalewise.analysis.figures import RunFigures
from scalewise.analysis.stability import Stability, stability
from scalewise.analysis.summary import ArmRow
from scalewise.explain.arms import figures_of, usable
from scalewise.explain.evidence import Evidence

ACCUMULATION = "practical7_accumulation"
MIXED = "practical7_amp"
BOTH = "practical5_single"
CODES = (ACCUMULATION, MIXED, BOTH)
NAMES: Mapping[str, str] = {ACCUMULATION: "Code 1", MIXED: "Code 2", BOTH: "Code 3"}
MEANS: Mapping[str, str] = {ACCUMULATION: "accumulation", MIXED: "AMP", BOTH: "accumulation + AMP"}


def code_row(evidence: Evidence, code: str, intervention: str = "none") -> ArmRow | None:
    """The arm of one code at the ACCUM_STEPS of the comparison."""
    return usable(evidence, "codes", intervention=intervention, code=code)


def reference_of(evidence: Evidence) -> RunFigures | None:
    """Code 1 computes in float32 on the same batch: its loss curve is what the others are held against."""
    found = figures_of(evidence, code_row(evidence, ACCUMULATION))
    return found[0] if found else None


def code_stability(evidence: Evidence, code: str) -> Stability | None:
    """Beside Code 1's curve; Code 1 itself beside nothing."""
    inspected = evidence.inspection("codes", code=code)
    return stability(
        figures_of(evidence, code_row(evidence, code)),
        None if code == ACCUMULATION else reference_of(evidence),
        inspected.gradients if inspected else (),
    )
