"""What a replay showed: the script as it is and with a finding's remedy applied, both measured."""

from dataclasses import dataclass

from scalewise.doctor.case import Case
from scalewise.records.spec import Remedy


@dataclass(frozen=True)
class Spared:
    """How much shorter a step is with the remedy; negative: longer."""

    milliseconds: float
    low: float
    high: float
    step_milliseconds: float  # of the script as it is
    how: str


@dataclass(frozen=True)
class Replayed:
    """Two further runs of the same script and data: as it is, and mended from outside."""

    remedy: Remedy
    plain: Case
    mended: Case
    applied: int  # how often the remedy took effect; 0: it could not be applied
    spared: Spared | None  # None: the times cannot be compared
    trouble: str = ""  # why the mended run cannot be used; empty: it can
