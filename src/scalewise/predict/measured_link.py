"""Makes a link from measured collectives: their own times, a fitted wire for the rest, or a refusal."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import hypot, sqrt
from statistics import fmean, median, stdev
from time import gmtime, strftime

from scalewise.analysis.fits import ALL_REDUCE
from scalewise.predict.link import Carrier, Link, LinkCurve, Wire
from scalewise.predict.probe import LinkProbe, Place
from scalewise.predict.wire_fit import MeasuredCollective, NoWireFit, WireFit, fit_wire
from scalewise.units import bytes_text

LEAST_SIZES = 3  # of a curve
MOST_ERROR = 0.5  # of the mean of a size: above it, something else used the machine
FEW = 5  # with fewer times, the median is taken
TRIMMED = 40  # one in this many is left out at each end, but at least one


@dataclass(frozen=True)
class NoLink:
    """The reason why nothing can be said about messages among this many ranks."""

    reason: str


def measured_link(probe: LinkProbe, ranks: int) -> Link | NoLink:
    """The link for that many ranks: from their own times, or by the wire fitted to all measured times."""
    fit = fitted_wire(probe)
    own = _of(probe.points, ranks)
    if own:
        return _from_own(probe, own, fit)
    if isinstance(fit, NoWireFit):
        return NoLink(f"nothing was measured among {ranks} ranks, and no model fits what was: {fit.reason}")
    measured = " and ".join(map(str, probe.rank_counts))
    nearest = min(probe.rank_counts, key=lambda count: abs(count - ranks))
    guess = f"that {ranks} ranks pass messages on as {measured} of this machine did"
    return Link(
        name="measured",
        inside=fit.wire,
        origin="measured",
        source=link_source_text(probe),
        spread=hypot(fit.spread, error_of(_of(probe.points, nearest))),
        guesses=(*fit.guesses, guess),
        curves=tuple(_curves(probe)),
        carrier=carrier_of(probe.place),
    )


def carrier_of(place: Place) -> Carrier:
    """The library whose algorithms the messages follow here."""
    return "nccl" if place.device == "cuda" else "gloo"


def link_source_text(probe: LinkProbe) -> str:
    """A text that says among whom the link was measured, and when."""
    when = strftime("%Y-%m-%d %H:%M UTC", gmtime(probe.made_unix_seconds))
    return f"{among_text(probe.place, probe.rank_counts)} on {probe.place.host}, measured {when}"


def among_text(place: Place, counts: Iterable[int]) -> str:
    """The ranks of a measurement as text: `gloo among 2 and 4 ranks of 4 cores each`."""
    ranks = " and ".join(map(str, counts))
    if place.device == "cuda":
        return f"{place.backend} among {ranks} GPUs"
    return f"{place.backend} among {ranks} ranks of {place.cores_per_rank} core{'s' * (place.cores_per_rank != 1)} each"


def fitted_wire(probe: LinkProbe) -> WireFit | NoWireFit:
    """The wire fitted to the curves; single times of small messages differ too much from one another."""
    return fit_wire(point for ranks in probe.rank_counts for point in _centres(probe.points, ranks))


def link_curve(points: Sequence[MeasuredCollective]) -> LinkCurve:
    """The mean time of every size, without the extremes.

    The mean and not the median: on shared cores, small messages take either a fraction of a millisecond or a time slice
    of the scheduler, and the messages of a step add up to their mean.
    """
    by_size = _by_size(points)
    times = tuple(_middle(times) for times in by_size.values())
    return LinkCurve(points[0].ranks, tuple(by_size), times, points[0].kind)


def error_of(points: Sequence[MeasuredCollective]) -> float:
    """The standard error of such a mean as a share, for the median size."""
    several = [_kept(times) for times in _by_size(points).values() if len(times) > 1]
    return median(stdev(times) / sqrt(len(times)) / fmean(times) for times in several) if several else 0.0


def _of(points: Iterable[MeasuredCollective], ranks: int, kind: str = ALL_REDUCE) -> list[MeasuredCollective]:
    return [point for point in points if point.ranks == ranks and point.kind == kind]


def _by_size(points: Sequence[MeasuredCollective]) -> dict[float, list[float]]:
    """The times of each size, the smallest size first."""
    sizes = sorted({point.size_bytes for point in points})
    return {size: [point.seconds for point in points if point.size_bytes == size] for size in sizes}


def _middle(times: Sequence[float]) -> float:
    return median(times) if len(times) < FEW else fmean(_kept(times))


def _kept(times: Sequence[float]) -> Sequence[float]:
    """The times without the extremes."""
    if len(times) < FEW:
        return times
    cut = max(1, len(times) // TRIMMED)
    return sorted(times)[cut:-cut]


def _centres(points: Sequence[MeasuredCollective], ranks: int) -> Iterator[MeasuredCollective]:
    curve = link_curve(_of(points, ranks))
    for size, seconds in zip(curve.sizes_bytes, curve.seconds, strict=True):
        yield MeasuredCollective(ranks, size, seconds)


def _from_own(probe: LinkProbe, own: Sequence[MeasuredCollective], fit: WireFit | NoWireFit) -> Link | NoLink:
    curve, error = link_curve(own), error_of(own)
    reason = _refused(curve, error)
    if reason:
        return NoLink(reason)
    if isinstance(fit, NoWireFit):
        fit = fit_wire(_centres(own, curve.ranks))
    return Link(
        name="measured",
        inside=fit.wire if isinstance(fit, WireFit) else wire_by_ends(curve),
        origin="measured",
        source=link_source_text(probe),
        spread=error,
        curves=tuple(_curves(probe)),
        carrier=carrier_of(probe.place),
        most_ranks=0 if isinstance(fit, WireFit) else curve.ranks,  # without a wire, other numbers of ranks are unknown
    )


def _curves(probe: LinkProbe) -> Iterator[LinkCurve]:
    for ranks, kind in sorted({(point.ranks, point.kind) for point in probe.points}):
        own = _of(probe.points, ranks, kind)
        curve = link_curve(own)
        if not _refused(curve, error_of(own)):
            yield curve


def _refused(curve: LinkCurve, error: float) -> str:
    if len(curve.sizes_bytes) < LEAST_SIZES:
        return f"only {len(curve.sizes_bytes)} sizes of messages were measured among {curve.ranks} ranks"
    if error > MOST_ERROR:
        return (
            f"all-reduces of one size among {curve.ranks} ranks differ so much that their mean is known to "
            f"{100 * error:.0f} % only: something else used the machine while they were measured"
        )
    if curve.seconds[-1] <= curve.seconds[0]:
        small, large = bytes_text(curve.sizes_bytes[0]), bytes_text(curve.sizes_bytes[-1])
        return f"{large} took no longer than {small} among {curve.ranks} ranks: such times tell nothing of a link"
    return ""


def wire_by_ends(curve: LinkCurve) -> Wire:
    """A wire through both ends of the curve, used only beyond the largest measured size."""
    per_byte = (curve.seconds[-1] - curve.seconds[0]) / (curve.sizes_bytes[-1] - curve.sizes_bytes[0])
    sent = 2 * (curve.ranks - 1) / curve.ranks
    return Wire(curve.seconds[0], 0.0, sent / per_byte)
