"""Shows what is here, in a few lines."""

from rich.table import Table

from scalewise.console.output import Output
from scalewise.records.machine import MachineFacts, Probe
from scalewise.units import bytes_text


def show_machine(output: Output, facts: MachineFacts) -> None:
    """Two columns: what, and how it is here."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _lines(facts):
        table.add_row(name, value)
    output.data.print(table)


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
    lines.append(("versions", ", ".join(f"{name} {version}" for name, version in facts.versions.items())))
    return lines


def _probe_text(probe: Probe) -> str:
    cap = f" under {probe.isa_cap}" if probe.isa_cap else ""
    return f"{probe.precision} {probe.result}{cap}"
