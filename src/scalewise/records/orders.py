"""What the parent asks of the fork server: the messages of one kind of process each, sent as JSON lines."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RankOrder:
    """A fresh process that runs a script as `python script.py args` would, with the watcher inside."""

    label: str
    script: str
    args: tuple[str, ...]
    cwd: str
    stdout: str
    stderr: str
    environment: dict[str, str]  # what the script sees, whole
    hidden: dict[str, str]  # what only native libraries and child processes see
    spec: str  # path of the run's spec.json
    out: str  # folder that gets the records
    unbuffered: bool  # torchrun starts its ranks with `python -u`
    view: int = 0  # process whose view of the file system it joins; 0: everybody's


@dataclass(frozen=True)
class ExecOrder:
    """Another program, in place of a fresh process: torchrun itself, or a new interpreter."""

    label: str
    argv: tuple[str, ...]
    cwd: str
    stdout: str
    stderr: str
    environment: dict[str, str]
    view: int = 0  # as in `RankOrder`


@dataclass(frozen=True)
class Layer:
    """A folder whose changes go elsewhere: `upper` gets them, `work` is the kernel's scratch space beside it."""

    folder: str
    upper: str
    work: str


@dataclass(frozen=True)
class ViewOrder:
    """A process that sees these folders through overlays, and keeps that view for others to join."""

    layers: tuple[Layer, ...]  # outer folders first
    direct: tuple[str, ...]  # folders in them that stay the real ones
    needed: str  # the folder without which there is no view; of the others each may fail


@dataclass(frozen=True)
class ProbeOrder:
    """A process that tries one training step in one precision and may die of it."""

    label: str
    precision: str
    isa_cap: str  # value of ONEDNN_MAX_CPU_ISA; empty: none
