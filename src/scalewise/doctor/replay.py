"""The results of a replay: the script as it is and with a finding's change applied, both measured."""

from dataclasses import dataclass

from scalewise.analysis.estimate import Estimate
from scalewise.doctor.case import Case
from scalewise.records.spec import Change


@dataclass(frozen=True)
class TimeSaved:
    """The time by which a step is shorter with the change; negative if it is longer."""

    milliseconds: Estimate
    step_milliseconds: float  # step time of the script as it is
    how: str


@dataclass(frozen=True)
class GradientPair:
    """Rank 0's gradients of the first optimizer step, when the parameters of both runs are still the same."""

    step: int
    plain_norm: float
    mended_norm: float
    plain_projection: float  # onto a fixed direction: two gradients agree if norm and projection do
    mended_projection: float
    plain_zeros: float  # share of elements that are exactly zero
    mended_zeros: float

    @property
    def factor(self) -> float | None:
        """The length of the mended gradient over that of the plain one; None if the plain one is zero."""
        return self.mended_norm / self.plain_norm if self.plain_norm else None


@dataclass(frozen=True)
class Replayed:
    """Two further runs of the same script and data: as it is, and with the change applied from outside."""

    change: Change
    plain: Case
    mended: Case
    applied: int  # how often the change took effect; 0: it could not be applied
    spared: TimeSaved | None  # None: the times cannot be compared
    trouble: str = ""  # how the script ended with the change, if it runs only without
    gradients: GradientPair | None = None  # None: not seen in both runs
