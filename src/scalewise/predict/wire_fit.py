"""Fits a wire to measured all-reduces: seconds = start + 2(n-1) hop + bytes (2(n-1)/n / rate + handled).

From one number of ranks only the first and the third term can be determined; from two numbers on, all four. The fit is
on relative residuals with outliers given little weight, and is refused if it does not describe the points. Where
several numbers of ranks lie on no common wire, that of the most ranks is taken, and its spread holds how far the others
are off it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from scalewise.analysis.estimate import Floats
from scalewise.analysis.fits import ALL_REDUCE, NORMAL_MAD, too_few
from scalewise.predict.link import Wire

MOST_RESIDUAL = 0.25  # median relative residual above which the model does not describe the points
ROUNDS = 60
SMALLEST_RESIDUAL = 0.01  # residuals below this have equal weight: the fit is then one of least absolute residuals


@dataclass(frozen=True)
class MeasuredCollective:
    """One measured collective."""

    ranks: int
    size_bytes: float
    seconds: float
    kind: str = ALL_REDUCE


@dataclass(frozen=True)
class WireFit:
    """The fitted wire, and measured over model minus 1 for every point, in their order."""

    wire: Wire
    points: tuple[MeasuredCollective, ...]
    relative_residuals: tuple[float, ...]
    guesses: tuple[str, ...]
    common: bool = True  # whether all numbers of ranks lie on it; if not, the farther half of the points is its spread

    @property
    def mean_error(self) -> float:
        """The mean absolute relative residual."""
        return float(np.mean(np.abs(self.relative_residuals)))

    @property
    def spread(self) -> float:
        """The robust standard deviation of logarithms of residuals: how far a collective differs from the model."""
        off = np.sort(np.abs(np.log1p(self.relative_residuals)))
        return NORMAL_MAD * float(np.median(off if self.common else off[len(off) // 2 :]))


@dataclass(frozen=True)
class NoWireFit:
    """The reason why no wire was fitted."""

    reason: str


def fit_wire(points: Iterable[MeasuredCollective]) -> WireFit | NoWireFit:
    """A wire from all-reduces among one or several numbers of ranks; other kinds are ignored."""
    used = tuple(
        one for one in points if one.kind == ALL_REDUCE and one.size_bytes > 0 and one.seconds > 0 and one.ranks > 1
    )
    reason = too_few(sorted({one.size_bytes for one in used}))
    if reason:
        return NoWireFit(reason)
    counts = sorted({one.ranks for one in used})
    fit = _fitted(used, several=len(counts) > 1)
    if isinstance(fit, WireFit) or len(counts) == 1:
        return fit
    most = _fitted([one for one in used if one.ranks == counts[-1]], several=False)
    if isinstance(most, NoWireFit):
        return fit
    wire = most.wire
    columns = _columns(used)
    known = np.array([wire.start_seconds, wire.hop_seconds, 1 / wire.bytes_per_second, wire.handled_seconds_per_byte])
    off = np.array([one.seconds for one in used]) / (columns @ known) - 1
    guess = f"that more ranks pass messages on as {counts[-1]} did: {fit.reason}"
    return WireFit(wire, used, tuple(off.tolist()), (guess,), common=False)


def _fitted(used: Sequence[MeasuredCollective], several: bool) -> WireFit | NoWireFit:
    """The wire through these points, if it describes them."""
    columns, target = _columns(used), np.array([one.seconds for one in used])
    coefficients = _nonnegative(columns / target[:, None], [0, 1, 2, 3] if several else [0, 2])
    if coefficients is None or coefficients[2] <= 0:
        return NoWireFit(_not_one_wire(used) if several else "larger messages did not take longer")
    residuals = target / (columns @ coefficients) - 1
    typical = float(np.median(np.abs(residuals)))
    if typical > MOST_RESIDUAL:
        found = f"the points miss the model by {100 * typical:.0f} % (median)"
        return NoWireFit(f"{found}, more than {100 * MOST_RESIDUAL:.0f} %")
    start, hop, per_byte, handled = (float(one) for one in coefficients)
    guesses = () if several else (_guess(used[0].ranks),)
    return WireFit(Wire(start, hop, 1 / per_byte, handled), tuple(used), tuple(residuals.tolist()), guesses)


def _columns(points: Sequence[MeasuredCollective]) -> Floats:
    ranks = np.array([one.ranks for one in points], dtype=np.float64)
    sizes = np.array([one.size_bytes for one in points], dtype=np.float64)
    return np.column_stack((np.ones_like(ranks), 2 * (ranks - 1), sizes * 2 * (ranks - 1) / ranks, sizes))


def _nonnegative(design: Floats, terms: list[int]) -> Floats | None:
    """The fit without negative terms: they are left out, the smallest share first, but never that of the rate."""
    while True:
        solution = _robust(design[:, terms])
        shares = solution * np.median(np.abs(design[:, terms]), axis=0)
        negative = [index for index in range(len(terms)) if solution[index] < 0 and terms[index] != 2]
        if not negative:
            whole = np.zeros(design.shape[1])
            whole[terms] = solution
            return whole
        terms = [term for index, term in enumerate(terms) if index != min(negative, key=lambda at: shares[at])]
        if terms == [2]:
            return None


def _robust(design: Floats) -> Floats:
    """The solution with least absolute relative residuals, by reweighting."""
    scale = np.abs(design).max(axis=0)
    scaled, target = design / scale, np.ones(len(design))
    weights = np.ones(len(design))
    for _ in range(ROUNDS):
        root = np.sqrt(weights)
        solution = np.linalg.lstsq(scaled * root[:, None], target * root, rcond=None)[0]
        weights = 1 / np.maximum(np.abs(scaled @ solution - target), SMALLEST_RESIDUAL)
    result: Floats = solution / scale
    return result


def _not_one_wire(points: Sequence[MeasuredCollective]) -> str:
    counts = ", ".join(str(count) for count in sorted({one.ranks for one in points}))
    return f"the times among {counts} ranks are not those of one wire: more ranks are not slower by a ring's share"


def _guess(ranks: int) -> str:
    return f"measured among {ranks} ranks only: that a hop costs nothing more, and nothing is handled beside the wire"
