"""Reads `wild.toml`: which training scripts a folder holds, how each is started, and what is known to be true of it.

python = ".venv/bin/python"            # for all scripts; each may name its own
environment = {TOKENIZERS_PARALLELISM = "false"}

[[script]]
name = "nanogpt"
path = "nanogpt/train.py"
root = "nanogpt"                       # copied before every run; the script's folder, if not given
cwd = "nanogpt"                        # where it is started; the script's folder, if not given
arguments = ["--device=cpu"]
ranks = [1, 2]                         # or `plain = true`: started as `python SCRIPT`
parallel = "data"                      # data, sharded, tensor, pipeline, apart, or none
samples = [32, 32]                     # of one step over all ranks, one number for each entry of ranks
begin = "logits, loss = model(X, Y)"   # the line before which a step's time begins, as it stands in `timed`
end = "scaler.step(optimizer)"         # the statement after which it ends
timed = "nanogpt/train.py"             # the file with these two lines; the script, if not given
true_findings = ["never-zeroed"]       # what the doctor may find, because it is true
expected_findings = ["same-data"]      # true as well, and missed if the doctor does not find it
false_findings = ["input-bound"]       # what would be false
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalewise.errors import BadRequest, did_you_mean

LIST = "wild.toml"
VERBS = ("run", "doctor", "rehearse")
PARALLEL = ("data", "sharded", "tensor", "pipeline", "apart", "none")
_TEXTS, _NUMBERS = "a list of texts", "a list of whole numbers above 0"
_KINDS = {
    "name": "a text",
    "path": "a text",
    "root": "a text",
    "cwd": "a text",
    "python": "a text",
    "timed": "a text",
    "begin": "a text",
    "end": "a text",
    "parallel": "a text",
    "arguments": _TEXTS,
    "true_findings": _TEXTS,
    "expected_findings": _TEXTS,
    "false_findings": _TEXTS,
    "verbs": _TEXTS,
    "ranks": _NUMBERS,
    "samples": _NUMBERS,
    "plain": "true or false",
    "environment": "a table of texts",
    "begin_number": "a whole number above 0",
    "end_number": "a whole number above 0",
    "limit_seconds": "a whole number above 0",
}
_FOR_ALL = ("python", "environment", "limit_seconds", "script")
_NEEDED = ("name", "path")


@dataclass(frozen=True)
class Mark:
    """One line of a script, by its text; `number` tells lines with the same text apart, counted from 1."""

    text: str
    number: int | None = None


@dataclass(frozen=True)
class Script:
    """One training script: how to start it, and what is known of it."""

    name: str
    path: Path
    root: Path  # copied before every run, so that no run sees what another one wrote
    cwd: Path
    python: str
    arguments: tuple[str, ...]
    environment: dict[str, str]
    ranks: tuple[int, ...]
    plain: bool
    parallel: str
    samples: tuple[int, ...]  # of one step over all ranks, for each entry of ranks; empty: not known
    timed: Path
    begin: Mark | None
    end: Mark | None
    true_findings: frozenset[str]
    expected_findings: frozenset[str]
    false_findings: frozenset[str]
    verbs: tuple[str, ...]
    limit_seconds: int


def read_list(folder: Path) -> tuple[Script, ...]:
    """Every script of the folder's list; all that is wrong with the list is told at once."""
    path = folder / LIST
    try:
        with path.open("rb") as file:
            told = tomllib.load(file)
    except FileNotFoundError:
        raise BadRequest(f"{folder} has no {LIST}.", "It names the scripts; bench/wild_list.py shows one.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadRequest(f"{path} cannot be read: {error}") from None
    wrong = [*_unknown(told, _FOR_ALL, "for all scripts"), *_mistyped({k: told[k] for k in told if k in _KINDS}, "")]
    entries = told.get("script", [])
    if not isinstance(entries, list) or not entries or not all(isinstance(one, dict) for one in entries):
        wrong.append("it has no [[script]] tables")
        entries = []
    for number, entry in enumerate(entries, 1):
        wrong += _wrong_with(entry, f"script {entry.get('name', number)!r}", folder)
    names = [entry.get("name") for entry in entries]
    wrong += [f"two scripts are called {name!r}" for name in dict.fromkeys(names) if name and names.count(name) > 1]
    if wrong:
        raise BadRequest(f"{path}: " + "; ".join(wrong) + ".")
    return tuple(_script(entry, told, folder.resolve()) for entry in entries)


def chosen(scripts: Iterable[Script], only: Iterable[str]) -> tuple[Script, ...]:
    """The scripts of these names, in the list's order; all of them where no name is given."""
    scripts, only = tuple(scripts), tuple(only)
    names = [one.name for one in scripts]
    for name in only:
        if name not in names:
            raise BadRequest(f"There is no script {name!r} in the list.", did_you_mean(name, names))
    return tuple(one for one in scripts if not only or one.name in only)


def _wrong_with(entry: dict[str, Any], who: str, folder: Path) -> list[str]:
    wrong = _unknown(entry, tuple(_KINDS), who) + _mistyped(entry, who)
    wrong += [f"{who} has no {key!r}" for key in _NEEDED if key not in entry]
    files = {key: entry[key] for key in ("path", "root", "cwd", "timed") if isinstance(entry.get(key), str)}
    wrong += [f"{who}: {key} {value!r} does not exist" for key, value in files.items() if not (folder / value).exists()]
    if ("begin" in entry) != ("end" in entry):
        wrong.append(f"{who} has one of 'begin' and 'end'; a time needs both")
    if entry.get("parallel", "none") not in PARALLEL:
        wrong.append(f"{who}: parallel is {entry['parallel']!r}, not one of {', '.join(PARALLEL)}")
    verbs = entry.get("verbs", [])
    if isinstance(verbs, list):
        wrong += [f"{who}: there is no verb {verb!r}" for verb in verbs if verb not in VERBS]
    ranks, samples = entry.get("ranks", [1]), entry.get("samples", [])
    if isinstance(ranks, list) and isinstance(samples, list) and samples and len(samples) != len(ranks):
        wrong.append(f"{who} has {len(samples)} numbers of samples for {len(ranks)} numbers of ranks")
    if entry.get("plain") is True and "ranks" in entry:
        wrong.append(f"{who} is plain, so it has no ranks")
    return wrong


def _unknown(told: dict[str, Any], known: tuple[str, ...], who: str) -> list[str]:
    return [
        f"{who}: unknown key {key!r}" + (f", {near}" if (near := did_you_mean(key, known)) else "")
        for key in told
        if key not in known
    ]


def _mistyped(told: dict[str, Any], who: str) -> list[str]:
    return [
        f"{who + ': ' if who else ''}{key} is {value!r}, not {_KINDS[key]}"
        for key, value in told.items()
        if key in _KINDS and not _fits(value, _KINDS[key])
    ]


def _fits(value: object, kind: str) -> bool:
    if kind == "true or false":
        return isinstance(value, bool)
    if kind == "a table of texts":
        return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
    if kind == "a text":
        return isinstance(value, str)
    if kind == "a whole number above 0":
        return _counts(value)
    if kind == _NUMBERS:
        return isinstance(value, list) and bool(value) and all(_counts(one) for one in value)
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _counts(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _script(entry: dict[str, Any], for_all: dict[str, Any], folder: Path) -> Script:
    path = folder / entry["path"]
    begin, end = (
        Mark(entry[key].strip(), entry.get(f"{key}_number")) if key in entry else None for key in ("begin", "end")
    )
    python = Path(entry.get("python", for_all.get("python", "python")))
    return Script(
        name=entry["name"],
        path=path,
        root=folder / entry["root"] if "root" in entry else path.parent,
        cwd=folder / entry["cwd"] if "cwd" in entry else path.parent,
        # Not resolved: an environment's interpreter is often a link, and knows by its own path where it belongs.
        python=str(folder / python) if len(python.parts) > 1 else str(python),
        arguments=tuple(entry.get("arguments", ())),
        environment={**for_all.get("environment", {}), **entry.get("environment", {})},
        ranks=tuple(entry.get("ranks", (1,))),
        plain=entry.get("plain", False),
        parallel=entry.get("parallel", "none"),
        samples=tuple(entry.get("samples", ())),
        timed=folder / entry["timed"] if "timed" in entry else path,
        begin=begin,
        end=end,
        true_findings=frozenset(entry.get("true_findings", ())),
        expected_findings=frozenset(entry.get("expected_findings", ())),
        false_findings=frozenset(entry.get("false_findings", ())),
        verbs=tuple(entry.get("verbs", VERBS)),
        limit_seconds=entry.get("limit_seconds", for_all.get("limit_seconds", 240)),
    )
