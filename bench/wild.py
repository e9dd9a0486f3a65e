"""Training scripts that a folder of yours holds: does each work under every verb, and are the numbers right?

`python -m bench wild --from FOLDER` reads FOLDER/wild.toml (bench/wild_list.py says what stands in it) and does five
things with each script: starts it alone, runs it, examines it, rehearses it, and times a copy by hand, bare and
watched in turns. What was done is kept in a results file, and the same command continues where it was interrupted.
"""

import dataclasses
import hashlib
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.wild_judge import judge, print_table, works_alone
from bench.wild_list import VERBS, Script, chosen, read_list
from bench.wild_parts import PARTS, Part, timed
from scalewise.errors import BadRequest, did_you_mean

RESULTS = "wild-results.json"
ROUNDS, QUICK_ROUNDS = 3, 1


def run(
    quick: bool,
    cuda: bool,
    *,
    folder: Path,
    only: Sequence[str] = (),
    verbs: Sequence[str] = VERBS,
    results: Path | None = None,
) -> dict[str, object]:
    """Prints the table of all scripts and gives their results back."""
    for verb in verbs:
        if verb not in VERBS:
            raise BadRequest(f"There is no verb {verb!r}.", did_you_mean(verb, VERBS))
    scripts = chosen(read_list(folder), only)
    kept = Kept(results or folder / RESULTS)
    interrupted = False
    for number, script in enumerate(scripts, 1):
        print(f"[{number}/{len(scripts)}] {script.name}", flush=True)
        try:
            _done(script, [verb for verb in script.verbs if verb in verbs], kept, QUICK_ROUNDS if quick else ROUNDS)
        except KeyboardInterrupt:
            interrupted = True
            break
    judged = [judge(script, kept.parts(script)) for script in scripts if kept.parts(script)]
    print_table(judged)
    if interrupted:
        print(f"\nInterrupted. The same command continues; what was done is in {kept.path}")
    return {
        "scripts": {one.name: dataclasses.asdict(one) for one in judged},
        "parts": {script.name: kept.parts(script) for script in scripts},
        "interrupted": interrupted,
    }


def _done(script: Script, verbs: Sequence[str], kept: "Kept", rounds: int) -> None:
    """Every part that is not kept yet; nothing but a new try of a script that fails alone."""
    work = Path(tempfile.mkdtemp(prefix=f"scalewise-wild-{script.name}-"))
    wanted = ["alone", *verbs, *(["timed"] if "run" in verbs else [])]
    try:
        for name in wanted:
            parts = kept.parts(script)
            if name in parts and works_alone(parts) is not False:
                continue
            if name != "alone" and works_alone(parts) is False:
                break
            print(f"  {name}", flush=True)
            try:
                part = timed(script, work, rounds) if name == "timed" else PARTS[name](script, work)
            except BadRequest as error:  # of this script alone: the others go on
                print(f"  {script.name}: {error.sentence} {error.hint}", flush=True)
                continue
            kept.keep(script, name, part)
    finally:
        shutil.rmtree(work, ignore_errors=True)


class Kept:
    """The results file: parts by script, each valid as long as the script's entry in the list stays the same."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            self._told = {}
        except (OSError, ValueError) as error:
            raise BadRequest(f"{path} is no results file: {error}", "Name another one with --results.") from None

    def parts(self, script: Script) -> dict[str, Part]:
        """What is kept of this script."""
        told = self._told.get(script.name, {})
        parts: dict[str, Part] = told.get("parts", {}) if told.get("start") == _start(script) else {}
        return parts

    def keep(self, script: Script, name: str, part: Part) -> None:
        """Written at once, and never half."""
        parts = self.parts(script) | {name: part}
        self._told[script.name] = {"start": _start(script), "parts": parts}
        half = self.path.with_name(self.path.name + ".part")
        half.write_text(json.dumps(self._told, indent=1) + "\n", encoding="utf-8")
        half.replace(self.path)


def _start(script: Script) -> str:
    """How it is started and timed; what is known to be true of it may change without a new run."""
    judged_by = (
        "true_findings",
        "expected_findings",
        "false_findings",
        "parallel",
        "samples",
        "verbs",
        "limit_seconds",
    )
    told = {key: str(value) for key, value in dataclasses.asdict(script).items() if key not in judged_by}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
