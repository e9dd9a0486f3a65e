"""What a suite's values mean together: checked on the raw TOML, so that no other error hides one of these."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from scalewise.errors import BadRequest, did_you_mean
from scalewise.plan.experiment import BUILT_IN, RESERVED_AXES
from scalewise.plan.words import parse_intervention, placeholders

Problem = tuple[str, str]  # where, what

_AXIS_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def meaning_problems(data: dict[str, Any], subjects: Sequence[str]) -> list[Problem]:
    """Everything that types alone cannot tell; parts of a wrong type are named elsewhere, and passed over."""
    experiments = data.get("experiment")
    if not isinstance(experiments, list):
        return []
    problems: list[Problem] = []
    names = [one.get("name") for one in experiments if isinstance(one, dict)]
    for index, raw in enumerate(experiments):
        if not isinstance(raw, dict):
            continue
        where = f"experiment[{index}]"
        name = raw.get("name")
        if isinstance(name, str) and names.index(name) < index:
            problems.append((f"{where}.name", f"{name!r} is used by another experiment of this suite"))
        for check in (_script, _ranks, _axes, _placeholders, _interventions, _base):
            problems += [(f"{where}.{place}", what) for place, what in check(raw, subjects)]
    return problems


def _script(raw: dict[str, Any], subjects: Sequence[str]) -> Iterator[Problem]:
    script = raw.get("script")
    if isinstance(script, str) and script.startswith(BUILT_IN):
        name = script.removeprefix(BUILT_IN)
        if name not in subjects:
            near = did_you_mean(name, subjects)
            yield "script", f"no built-in subject {name!r}; {near or 'there are ' + ', '.join(subjects)}"


def _ranks(raw: dict[str, Any], _subjects: Sequence[str]) -> Iterator[Problem]:
    ranks = [count for count in _list(raw, "ranks") if _is_int(count)]
    for index, count in enumerate(ranks):
        if count in ranks[:index]:
            yield f"ranks[{index}]", f"{count} is named twice; use repeat to measure an arm several times"
    if raw.get("mode") == "python" and any(count != 1 for count in ranks):
        yield "ranks", "mode 'python' starts one plain process; leave ranks out or use mode 'torchrun'"


def _axes(raw: dict[str, Any], _subjects: Sequence[str]) -> Iterator[Problem]:
    used = {name for text in _texts(raw) for name in placeholders(text)}
    for name, values in _table(raw, "axes").items():
        if name in RESERVED_AXES:
            yield (
                f"axes.{name}",
                "this name is taken; ranks, repeat and interventions are fields of their own",
            )
        elif not _AXIS_NAME.fullmatch(name):
            yield (
                f"axes.{name}",
                "an axis is named by letters, digits and _, so that {name} can stand in args",
            )
        elif name not in used:
            yield (
                f"axes.{name}",
                f"nothing in args or env uses {{{name}}}, so its values would make no difference",
            )
        if isinstance(values, list):
            for text, count in Counter(f"{value!r}" for value in values).items():
                if count > 1:
                    yield f"axes.{name}", f"{text} is named twice"


def _placeholders(raw: dict[str, Any], _subjects: Sequence[str]) -> Iterator[Problem]:
    known = [*_table(raw, "axes"), "ranks"]
    places = [(f"args[{index}]", text) for index, text in enumerate(_list(raw, "args"))]
    places += [(f"env.{name}", text) for name, text in _table(raw, "env").items()]
    for place, text in places:
        for name in placeholders(text) if isinstance(text, str) else ():
            if name not in known:
                near = did_you_mean(name, known) or f"known are {', '.join(known)}"
                yield place, f"{{{name}}} is not an axis; {near} (write {{{{{name}}}}} for the text itself)"


def _interventions(raw: dict[str, Any], _subjects: Sequence[str]) -> Iterator[Problem]:
    most = max((count for count in _list(raw, "ranks") if _is_int(count)), default=1)
    seen = []
    for index, text in enumerate(_list(raw, "interventions")):
        place = f"interventions[{index}]"
        if not isinstance(text, str):
            continue
        try:
            found = parse_intervention(text)
        except BadRequest as problem:
            yield place, f"{problem.sentence} {problem.hint}".rstrip(".")
            continue
        if found in seen:
            yield place, f"{text!r} is named twice"
        seen.append(found)
        for one in found:
            if one.rank is not None and one.rank >= most:
                yield place, f"there is no rank {one.rank} among {most}"


def _base(raw: dict[str, Any], _subjects: Sequence[str]) -> Iterator[Problem]:
    axes = _table(raw, "axes")
    choices = {**axes, "ranks": raw.get("ranks", [1]), "intervention": raw.get("interventions", ["none"])}
    for name, value in _table(raw, "base").items():
        if name not in choices:
            near = did_you_mean(name, choices) or f"allowed are {', '.join(choices)}"
            yield f"base.{name}", f"not an axis of this experiment; {near}"
        elif isinstance(choices[name], list) and value not in choices[name]:
            yield f"base.{name}", f"{value!r} is not among its values {choices[name]!r}"


def _texts(raw: dict[str, Any]) -> list[str]:
    return [text for text in (*_list(raw, "args"), *_table(raw, "env").values()) if isinstance(text, str)]


def _list(raw: dict[str, Any], field: str) -> list[Any]:
    value = raw.get(field)
    return value if isinstance(value, list) else []


def _table(raw: dict[str, Any], field: str) -> dict[str, Any]:
    value = raw.get(field)
    return value if isinstance(value, dict) else {}


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
