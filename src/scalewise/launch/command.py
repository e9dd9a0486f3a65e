"""Writes the text of `command.txt`: a plain torchrun line that repeats a run without scalewise's parent."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from scalewise.launch import environment
from scalewise.launch.torchrun import torchrun_options
from scalewise.records.spec import RunSpec

_IN_PLACE = "# It works in the folder itself: what the script writes stays there.\n"


def command_text(spec: RunSpec, spec_path: Path, isa_cap: str, user: Mapping[str, str]) -> str:
    """Two commands: one with the watcher, whose records go to a new folder, and as a comment one without it."""
    visible = environment.visible(spec, user)
    changed = {name: value for name, value in visible.items() if user.get(name) != value}
    hidden = environment.hidden(spec, visible, spec_path, Path(), isa_cap)
    guards = {name: hidden[name] for name in filter(None, hidden[environment.HIDE].split(","))}
    plain = _line(_assignments(changed | guards), spec)
    inject = shlex.quote(environment.INJECT)
    watcher = [
        f"PYTHONPATH={inject}${{PYTHONPATH:+:$PYTHONPATH}}",
        *_assignments({environment.SPEC: str(spec_path), environment.HIDE: hidden[environment.HIDE]}),
        f'{environment.OUT}="$out"',
    ]
    if "PYTHONPATH" in changed:
        changed.pop("PYTHONPATH")
        watcher[0] = f"PYTHONPATH={shlex.quote(hidden['PYTHONPATH'])}"
    watched = _line([*_assignments(changed | guards), *watcher], spec)
    return (
        f"# Repeats the run {spec.name}: the same ranks and the same watcher, records in a new folder.\n"
        f"{_IN_PLACE if spec.folder_use == 'private' else ''}"
        f'cd {shlex.quote(spec.cwd)} && out="$(mktemp -d)" && {watched} && echo "records in $out"\n'
        f"\n# The same without the watcher:\n"
        f"# cd {shlex.quote(spec.cwd)} && {plain}\n"
    )


def _assignments(variables: Mapping[str, str]) -> list[str]:
    return [f"{name}={shlex.quote(value)}" for name, value in sorted(variables.items())]


def _line(assignments: list[str], spec: RunSpec) -> str:
    return " ".join([*assignments, *_program(spec), shlex.quote(spec.script), *map(shlex.quote, spec.args)])


def _program(spec: RunSpec) -> list[str]:
    python = Path(spec.python or sys.executable)
    if spec.mode == "python":
        return [shlex.quote(str(python))]
    torchrun = python.parent / "torchrun"
    found = [str(torchrun)] if torchrun.is_file() else [str(python), "-m", "torch.distributed.run"]
    return [shlex.quote(part) for part in found] + torchrun_options(spec)
