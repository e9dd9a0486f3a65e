"""Shows facts about this machine in a few lines, and the links that were measured."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from scalewise.analysis.fits import ALL_REDUCE
from scalewise.console.output import Output
from scalewise.predict.link import Link, LinkCurve
from scalewise.predict.measured_link import fitted_wire, link_source_text, measured_link
from scalewise.predict.probe import LinkProbe, sharing_of
from scalewise.predict.wire_fit import NoWireFit
from scalewise.records.codec import encode
from scalewise.records.machine import MachineFacts, PeakRates, PrecisionProbe
from scalewise.units import bytes_text, seconds_text

SHOWN_SIZES = 4


def show_machine(output: Output, facts: MachineFacts, probes: Sequence[LinkProbe] = ()) -> None:
    """Prints two columns: the name of a fact and its value here."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in [*_lines(facts), *(line for probe in probes for line in link_lines(probe))]:
        table.add_row(name, value)
    output.data.print(table)


def links_json(probes: Sequence[LinkProbe]) -> list[dict[str, Any]]:
    """The measured values of each link, and the lines that the terminal shows about it."""
    return [{**encode(probe), "in_words": [value for _, value in link_lines(probe)]} for probe in probes]


def link_lines(probe: LinkProbe) -> list[tuple[str, str]]:
    """Lines about a measured link: times, the fitted curve or why none was fitted, and how cores are shared."""
    lines = [("link", f"{link_source_text(probe)}, in {probe.took_seconds:.1f} s")]
    for ranks in probe.rank_counts:
        link = measured_link(probe, ranks)
        if isinstance(link, Link):
            by_kind = {one.kind: _curve_text(one) for one in link.curves if one.ranks == ranks}
            known = f"these means are known to {100 * link.spread:.0f} %"
            lines.append(("", f"{ranks} ranks: {by_kind.pop(ALL_REDUCE)}; {known}"))
            lines += [("", f"{ranks} ranks, {kind}: {times}") for kind, times in by_kind.items()]
        else:
            lines.append(("", f"{ranks} ranks: refused, for {link.reason}"))
    fit = fitted_wire(probe)
    if isinstance(fit, NoWireFit):
        lines.append(("", f"other numbers of ranks: refused, for {fit.reason}"))
    else:
        start, rate = seconds_text(fit.wire.start_seconds), fit.wire.bytes_per_second / 1e9
        missed = f"misses a time by {100 * fit.mean_error:.0f} % in the mean"
        lines.append(("", f"fitted: {start} to start, {rate:.2f} GB/s each way; {missed}"))
    if probe.overlaps:
        sharing = sharing_of(probe.overlaps, probe.place.cores_per_rank)
        drag = f", and computing takes {100 * sharing.drag:.0f} % longer beside it" if sharing.drag >= 0.005 else ""
        lines.append(("", f"cores are at work for {100 * sharing.work:.0f} % of a message's time{drag}"))
        if sharing.spared_seconds:
            spared = seconds_text(sharing.spared_seconds)
            lines.append(("", f"a message that begins while another is under way takes {spared} less"))
    return lines + [("", trouble) for trouble in probe.troubles]


def _curve_text(curve: LinkCurve) -> str:
    every = max(1, (len(curve.sizes_bytes) - 1) // (SHOWN_SIZES - 1))
    shown = list(zip(curve.sizes_bytes, curve.seconds, strict=True))[::-every][::-1]
    return ", ".join(f"{bytes_text(size)} {seconds_text(seconds)}" for size, seconds in shown)


def _lines(facts: MachineFacts) -> list[tuple[str, str]]:
    kind = "virtual machine, " if facts.virtual else ""
    cores = len(facts.cores)
    lines = [
        ("host", f"{facts.host} ({kind}{facts.system})"),
        ("CPU", f"{facts.cpu_model}, {cores} usable core{'s' if cores != 1 else ''}"),
        ("memory", bytes_text(facts.memory_bytes)),
        ("governor", facts.governor or "not visible"),
        ("instructions", " ".join(facts.isa_advertised) or "none that matter to matrix code"),
        ("precisions", "; ".join(_probe_text(probe) for probe in facts.probes) or "not tried"),
    ]
    if facts.isa_cap:
        lines.append(("cap", f"ONEDNN_MAX_CPU_ISA={facts.isa_cap}, the widest under which every precision survives"))
    lines += [(f"GPU {gpu.index}", f"{gpu.name}, {bytes_text(gpu.memory_bytes)}") for gpu in facts.gpus] or [
        ("GPUs", "none: ranks are logical devices on shares of the cores")
    ]
    lines += [("peak", _peak_text(peaks)) for peaks in facts.peaks]
    lines.append(("versions", ", ".join(f"{name} {version}" for name, version in facts.versions.items())))
    return lines


def _peak_text(peaks: PeakRates) -> str:
    cores = f"a rank on {peaks.cores} core{'' if peaks.cores == 1 else 's'}" if peaks.cores else "a rank, not pinned"
    rates = ", ".join(f"{name} {rate / 1e12:.3g}" for name, rate in peaks.flops_per_second.items())
    copies = f"copies {peaks.copy_bytes_per_second / 1e9:.3g} GB/s"
    return f"{peaks.name if peaks.device == 'cuda' else cores}, measured: {rates} Tflop/s; {copies}"


def _probe_text(probe: PrecisionProbe) -> str:
    cap = f" under {probe.isa_cap}" if probe.isa_cap else ""
    return f"{probe.precision} {probe.result}{cap}"
