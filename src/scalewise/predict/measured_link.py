"""A link from measured all-reduces: their own times where they were measured, a fitted wire beyond; or a refusal."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from time import gmtime, strftime

from scalewise.predict.link import Curve, Link, Wire
from scalewise.predict.probe import LinkProbe, Place
from scalewise.predict.wire_fit import NoWireFit, Point, WireFit, fit_wire
from scalewise.units import bytes_text

LEAST_SIZES = 3  # of a curve
MOST_SCATTER = 0.5  # of times of one size around their median: above, the machine did something else meanwhile


@dataclass(frozen=True)
class NoLink:
    """Why nothing can be said about messages among so many ranks."""

    reason: str


def measured_link(probe: LinkProbe, ranks: int) -> Link | NoLink:
    """For that many ranks: from their own times, or by the wire that describes all that were measured."""
    fit = fit_wire(probe.points)
    own = [point for point in probe.points if point.ranks == ranks]
    if own:
        return _from_own(probe, own, fit)
    if isinstance(fit, NoWireFit):
        return NoLink(f"nothing was measured among {ranks} ranks, and no model fits what was: {fit.reason}")
    measured = " and ".join(map(str, probe.rank_counts))
    guess = f"that {ranks} ranks pass messages on as {measured} of this machine did"
    return Link(
        name="measured",
        inside=fit.wire,
        origin="measured",
        source=source_text(probe),
        spread=fit.spread,
        guesses=(*fit.guesses, guess),
        curves=tuple(_curves(probe)),
    )


def source_text(probe: LinkProbe) -> str:
    """Who measured it, and when."""
    when = strftime("%Y-%m-%d %H:%M UTC", gmtime(probe.made_unix_seconds))
    return f"{among_text(probe.place, probe.rank_counts)} on {probe.place.host}, measured {when}"


def among_text(place: Place, counts: Iterable[int]) -> str:
    """`gloo among 2 and 4 ranks of 4 cores each`."""
    ranks = " and ".join(map(str, counts))
    if place.device == "cuda":
        return f"{place.backend} among {ranks} GPUs"
    return f"{place.backend} among {ranks} ranks of {place.cores_per_rank} core{'s' * (place.cores_per_rank != 1)} each"


def curve_of(points: Sequence[Point]) -> Curve:
    """The median of every size."""
    by_size: dict[float, list[float]] = {}
    for point in points:
        by_size.setdefault(point.size_bytes, []).append(point.seconds)
    sizes = sorted(by_size)
    return Curve(points[0].ranks, tuple(sizes), tuple(median(by_size[size]) for size in sizes))


def scatter_of(points: Sequence[Point]) -> float:
    """How far one time of a size is from the median of that size: standard deviation as a share, robust."""
    curve = curve_of(points)
    return 1.4826 * median(abs(point.seconds / curve.at(point.size_bytes) - 1) for point in points)


def _from_own(probe: LinkProbe, own: Sequence[Point], fit: WireFit | NoWireFit) -> Link | NoLink:
    curve, scatter = curve_of(own), scatter_of(own)
    reason = _refused(curve, scatter)
    if reason:
        return NoLink(reason)
    if isinstance(fit, NoWireFit):
        fit = fit_wire(own)
    return Link(
        name="measured",
        inside=fit.wire if isinstance(fit, WireFit) else _wire_by_ends(curve),
        origin="measured",
        source=source_text(probe),
        spread=scatter,
        curves=tuple(_curves(probe)),
    )


def _curves(probe: LinkProbe) -> Iterator[Curve]:
    for ranks in probe.rank_counts:
        own = [point for point in probe.points if point.ranks == ranks]
        curve = curve_of(own)
        if not _refused(curve, scatter_of(own)):
            yield curve


def _refused(curve: Curve, scatter: float) -> str:
    if len(curve.sizes_bytes) < LEAST_SIZES:
        return f"only {len(curve.sizes_bytes)} sizes of messages were measured among {curve.ranks} ranks"
    if scatter > MOST_SCATTER:
        return (
            f"all-reduces of one size among {curve.ranks} ranks differ by {100 * scatter:.0f} %: something else used "
            "the machine while they were measured"
        )
    if curve.seconds[-1] <= curve.seconds[0]:
        small, large = bytes_text(curve.sizes_bytes[0]), bytes_text(curve.sizes_bytes[-1])
        return f"{large} took no longer than {small} among {curve.ranks} ranks: such times tell nothing of a link"
    return ""


def _wire_by_ends(curve: Curve) -> Wire:
    """Only to carry on beyond the largest size that was measured."""
    per_byte = (curve.seconds[-1] - curve.seconds[0]) / (curve.sizes_bytes[-1] - curve.sizes_bytes[0])
    sent = 2 * (curve.ranks - 1) / curve.ranks
    return Wire(curve.seconds[0], 0.0, sent / per_byte)
