"""The document of a machine: facts about it, and what was measured of its devices and of the links between ranks."""

from collections.abc import Iterator, Sequence

from scalewise.analysis.fits import ALL_REDUCE
from scalewise.predict.link import Link, LinkCurve
from scalewise.predict.measured_link import fitted_wire, link_source_text, measured_link
from scalewise.predict.probe import LinkProbe, sharing_of
from scalewise.predict.wire_fit import NoWireFit
from scalewise.records.machine import MachineFacts, PeakRates, PrecisionProbe
from scalewise.report.document import Document, Facts, Section
from scalewise.units import bytes_text, counted, seconds_text

SHOWN_SIZES = 4


def machine_document(facts: MachineFacts, probes: Sequence[LinkProbe] = ()) -> Document:
    """Returns the names of facts with their values here; the links that were measured come last."""
    links = tuple((("" if place else "link"), text) for one in probes for place, text in enumerate(link_texts(one)))
    section = Section("machine", "", (Facts((*_facts(facts), *links)),))
    return Document("machine", "", (), (section,), made_by="scalewise machine", numbered=False)


def link_texts(probe: LinkProbe) -> tuple[str, ...]:
    """Returns what was measured of a link: times, the fitted curve or why none was fitted, how cores are shared."""
    return (f"{link_source_text(probe)}, in {probe.took_seconds:.1f} s", *_curves(probe), *_fit(probe), *probe.troubles)


def _curves(probe: LinkProbe) -> Iterator[str]:
    for ranks in probe.rank_counts:
        link = measured_link(probe, ranks)
        if isinstance(link, Link):
            by_kind = {one.kind: _curve_text(one) for one in link.curves if one.ranks == ranks}
            known = f"these means are known to {100 * link.spread:.0f} %"
            yield f"{ranks} ranks: {by_kind.pop(ALL_REDUCE)}; {known}"
            yield from (f"{ranks} ranks, {kind}: {times}" for kind, times in by_kind.items())
        else:
            yield f"{ranks} ranks: refused, for {link.reason}"


def _fit(probe: LinkProbe) -> Iterator[str]:
    fit = fitted_wire(probe)
    if isinstance(fit, NoWireFit):
        yield f"other numbers of ranks: refused, for {fit.reason}"
    else:
        start, rate = seconds_text(fit.wire.start_seconds), fit.wire.bytes_per_second / 1e9
        missed = f"misses a time by {100 * fit.mean_error:.0f} % in the mean"
        yield f"fitted: {start} to start, {rate:.2f} GB/s each way; {missed}"
    if probe.overlaps:
        for ranks in sorted({one.ranks for one in probe.overlaps}):
            sharing = sharing_of(probe.overlaps, probe.place.cores_per_rank, ranks)
            yield f"{ranks} ranks: a message holds up computing beside it for {100 * sharing.work:.0f} % of its time"
            if sharing.beside_seconds:
                by, word = seconds_text(abs(sharing.beside_seconds)), "more" if sharing.beside_seconds > 0 else "less"
                yield f"{ranks} ranks: a message that begins while another is under way takes {by} {word}"


def _curve_text(curve: LinkCurve) -> str:
    every = max(1, (len(curve.sizes_bytes) - 1) // (SHOWN_SIZES - 1))
    shown = list(zip(curve.sizes_bytes, curve.seconds, strict=True))[::-every][::-1]
    return ", ".join(f"{bytes_text(size)} {seconds_text(seconds)}" for size, seconds in shown)


def _facts(facts: MachineFacts) -> Iterator[tuple[str, str]]:
    yield "host", f"{facts.host} ({'virtual machine, ' if facts.virtual else ''}{facts.system})"
    yield "CPU", f"{facts.cpu_model}, {counted(len(facts.cores), 'usable core')}"
    yield "memory", bytes_text(facts.memory_bytes)
    yield "governor", facts.governor or "not visible"
    yield "instructions", " ".join(facts.isa_advertised) or "none that matter to matrix code"
    yield "precisions", "; ".join(_probe_text(probe) for probe in facts.probes) or "not tried"
    if facts.isa_cap:
        yield "cap", f"ONEDNN_MAX_CPU_ISA={facts.isa_cap}, the widest under which every precision survives"
    for gpu in facts.gpus:
        yield f"GPU {gpu.index}", f"{gpu.name}, {bytes_text(gpu.memory_bytes)}"
    if not facts.gpus:
        yield "GPUs", "none: ranks are logical devices on shares of the cores"
    yield from (("peak", _peak_text(peaks)) for peaks in facts.peaks)
    yield "versions", ", ".join(f"{name} {version}" for name, version in facts.versions.items())


def _peak_text(peaks: PeakRates) -> str:
    cores = f"a rank on {counted(peaks.cores, 'core')}" if peaks.cores else "a rank, not pinned"
    rates = ", ".join(f"{name} {rate / 1e12:.3g}" for name, rate in peaks.flops_per_second.items())
    copies = f"copies {peaks.copy_bytes_per_second / 1e9:.3g} GB/s"
    return f"{peaks.name if peaks.device == 'cuda' else cores}, measured: {rates} Tflop/s; {copies}"


def _probe_text(probe: PrecisionProbe) -> str:
    cap = f" under {probe.isa_cap}" if probe.isa_cap else ""
    return f"{probe.precision} {probe.result}{cap}"
