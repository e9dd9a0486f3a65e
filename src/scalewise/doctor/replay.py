"""What a replay showed: the script as it is and with a finding's remedy applied, both measured."""

from dataclasses import dataclass

from scalewise.analysis.estimate import Estimate
from scalewise.doctor.case import Case
from scalewise.records.spec import Change


@dataclass(frozen=True)
class Spared:
    """How much shorter a step is with the remedy; negative: longer."""

    milliseconds: Estimate
    step_milliseconds: float  # of the script as it is
    how: str


@dataclass(frozen=True)
class GradientPair:
    """Rank 0's gradients of the first optimizer step, where the parameters of both runs are still the same."""

    step: int
    plain_norm: float
    mended_norm: float
    plain_projection: float  # on a fixed direction: two gradients agree when norm and projection do
    mended_projection: float
    plain_zeros: float  # share of elements that are exactly zero
    mended_zeros: float

    @property
    def factor(self) -> float | None:
        """How long the mended gradient is in terms of the plain one; None where that one vanishes."""
        return self.mended_norm / self.plain_norm if self.plain_norm else None


@dataclass(frozen=True)
class Replayed:
    """Two further runs of the same script and data: as it is, and mended from outside."""

    remedy: Change
    plain: Case
    mended: Case
    applied: int  # how often the remedy took effect; 0: it could not be applied
    spared: Spared | None  # None: the times cannot be compared
    trouble: str = ""  # the script runs as it is, but not with the remedy: how it ended then
    gradients: GradientPair | None = None  # None: not seen in both
