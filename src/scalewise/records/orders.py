"""The messages that the parent sends to the fork server as JSON lines, one for each kind of process."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RankOrder:
    """An order for a fresh process that runs a script as `python script.py args` would, with the watcher inside."""

    label: str
    script: str
    args: tuple[str, ...]
    cwd: str
    stdout: str
    stderr: str
    environment: dict[str, str]  # the whole environment that the script sees
    hidden: dict[str, str]  # variables that only native libraries and child processes see
    spec: str  # path of the run's spec.json
    out: str  # folder for the records
    unbuffered: bool  # torchrun starts its ranks with `python -u`
    view: int = 0  # process whose view of the file system it joins; 0: none, the ordinary one


@dataclass(frozen=True)
class ExecOrder:
    """An order for another program in place of a fresh process: torchrun itself, or a new interpreter."""

    label: str
    argv: tuple[str, ...]
    cwd: str
    stdout: str
    stderr: str
    environment: dict[str, str]
    view: int = 0  # as in `RankOrder`


@dataclass(frozen=True)
class Layer:
    """A folder whose changes are redirected: `upper` gets them, `work` is the kernel's scratch space beside it."""

    folder: str
    upper: str
    work: str


@dataclass(frozen=True)
class ViewOrder:
    """An order for a process that sees these folders through overlays, and keeps that view for others to join."""

    layers: tuple[Layer, ...]  # outer folders first
    direct: tuple[str, ...]  # folders in them that stay the real ones
    needed: str  # the folder without which there is no view; each of the others may fail


@dataclass(frozen=True)
class ProbeOrder:
    """An order for a process that tries one training step in one precision, which may kill it."""

    label: str
    precision: str
    isa_cap: str  # value of ONEDNN_MAX_CPU_ISA; empty: none
