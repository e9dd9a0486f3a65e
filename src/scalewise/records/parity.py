"""The rows of a run that is compared with another: its tensors in a few numbers, and what it was given.

A tensor of any size is known by its sum of squares and by projections onto fixed rows of random signs. Both are sums
over elements, so ranks that hold parts of a tensor write the sums of their parts, and a reader adds them up. The
distance of two tensors is estimated from the differences of their projections.
"""

from dataclasses import dataclass, field
from typing import Literal

PROJECTIONS = 8
GIVEN_FILE = "rank{}.given"  # in the run's folder: what each rank was given, for `watch.parity.given`
SHAPES_FILE = "shapes.json"  # in the suite's folder: the shapes of one rank's tensors, by which parts are recognised


@dataclass(frozen=True)
class TensorRow:
    """A gradient as an optimizer uses it, or a parameter as it is before the step of that number."""

    step: int  # optimizer steps are counted for each optimizer; of parameters, those of the first
    what: Literal["gradient", "parameter"]
    name: str
    shape: tuple[int, ...]  # of the whole tensor
    dtype: str
    squares: float
    projections: tuple[float, ...]
    non_finite: bool = False
    copies: int = 0  # ranks that hold the same part of it; 0: this rank holds the whole
    recognised: bool = False  # the part's place was told by its shape alone


@dataclass(frozen=True)
class SettingsOfGroupsRow:
    """The settings of an optimizer's groups before a step, such as `0.lr`; only numbers."""

    step: int
    optimizer: int
    settings: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class GivenRow:
    """The data since the last step from which modules learnt, in sums that do not depend on its order."""

    step: int
    calls: int  # of outermost modules, whose results a backward pass reached
    rows: int  # of the first tensor of each call
    digests: tuple[str, ...]  # for each tensor of a call, the sum over the digests of its rows
    across: tuple[str, ...] = ()  # likewise, of slices along the second dimension: some models take time first
    generator: str = ""  # digest of the state of torch's generator


@dataclass(frozen=True)
class AboutGivenRow:
    """A fact about how a script is given its data that is no matter of a step."""

    what: Literal["seeded", "source", "too large", "misfit"]  # source: what gives data, loader or draw
    detail: str = ""


ParityRow = TensorRow | SettingsOfGroupsRow | GivenRow | AboutGivenRow
PARITY_KINDS = {
    "tensor": TensorRow,
    "group_settings": SettingsOfGroupsRow,
    "given": GivenRow,
    "about_given": AboutGivenRow,
}
