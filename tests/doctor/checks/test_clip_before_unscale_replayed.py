"""What a replay with unscale_ before the clip makes of a finding."""

import pytest
from case_factory import Sheet, make_case

from scalewise.doctor.checks.clip_before_unscale import CHANGE, CHECK, settle
from scalewise.doctor.finding import Finding, GradientPair, Replayed

SUSPICION = Finding(CHECK.name, "wrong", "It is.", ("1",), "fix", proof="suspected", change=CHANGE)


@pytest.mark.parametrize(
    ("fixed_norm", "applied", "trouble", "proof"),
    [(1.0, 3, "", "replayed"), (1e-5, 3, "", "suspected"), (1.0, 0, "", "suspected"), (1.0, 3, "hung", "suspected")],
)
def test_another_gradient_is_the_proof(fixed_norm: float, applied: int, trouble: str, proof: str) -> None:
    case = make_case(Sheet().window(1), ranks=2)
    pair = GradientPair(0, 1e-5, fixed_norm, 0.0, 0.0, 0.0, 0.0)
    found = settle(case, SUSPICION, Replayed(CHANGE, case, case, applied, None, trouble, pair))
    assert found.proof == proof
    if proof == "replayed":
        assert found.evidence[-1] == "norm of the first applied gradient: 1e-05 as it is, 1 with unscale_"


def test_without_gradients_nothing_is_said() -> None:
    case = make_case(Sheet().window(1), ranks=2)
    assert settle(case, SUSPICION, Replayed(CHANGE, case, case, 3, None)) == SUSPICION
