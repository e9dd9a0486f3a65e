"""Checks what a suite's values mean together, on the raw TOML, so that no other error hides one of these."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from scalewise.errors import BadRequest, did_you_mean
from scalewise.plan.experiment import BUILT_IN, CASE, COURSE, RESERVED_AXES
from scalewise.plan.shrink import SIZED_BY
from scalewise.plan.words import PLAIN, parse_changes, placeholders

Problem = tuple[str, str]  # where, what is wrong

_COURSE_NAME = re.compile(r"\w+\.py", re.ASCII)
_AXIS_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def meaning_problems(data: dict[str, Any], subjects: Sequence[str]) -> list[Problem]:
    """All problems that types alone cannot show; parts of a wrong type are reported elsewhere and skipped here."""
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
        for check in CHECKS:
            problems += [(f"{where}.{place}", what) for place, what in check(raw, subjects)]
    return problems


def _script(raw: dict[str, Any], subjects: Sequence[str]) -> Iterator[Problem]:
    script = raw.get("script")
    if not isinstance(script, str) or placeholders(script):
        return
    if script.startswith(COURSE) and not _COURSE_NAME.fullmatch(script.removeprefix(COURSE)):
        yield "script", f"{script!r} is not a script of the course; write it as course:practical6_ddp.py"
    if script.startswith(BUILT_IN):
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
    used = {name for text in _texts(raw).values() for name in placeholders(text)}
    for name, values in _table(raw, "axes").items():
        if name == CASE and "cases" in raw:
            yield "axes.case", "`cases` makes this axis itself; leave it out here"
        elif name in RESERVED_AXES:
            yield (
                f"axes.{name}",
                "this name is taken; ranks, repeat and changes are fields of their own",
            )
        elif not _AXIS_NAME.fullmatch(name):
            yield (
                f"axes.{name}",
                "an axis is named by letters, digits and _, so that {name} can stand in args",
            )
        elif name not in used:
            yield (
                f"axes.{name}",
                f"nothing in script, args or env uses {{{name}}}, so its values would make no difference",
            )
        if isinstance(values, list):
            for text, count in Counter(f"{value!r}" for value in values).items():
                if count > 1:
                    yield f"axes.{name}", f"{text} is named twice"


def _cases(raw: dict[str, Any], _subjects: Sequence[str]) -> Iterator[Problem]:
    tables = {name: table for name, table in _table(raw, "cases").items() if isinstance(table, dict)}
    every = {variable for table in tables.values() for variable in table}
    for name, table in tables.items():
        missing = sorted(every - set(table) - set(_table(raw, "env")))
        if missing:
            yield f"cases.{name}", f"lacks {', '.join(missing)}, which another case sets; set it here or in env"


def _shrink(raw: dict[str, Any], _subjects: Sequence[str]) -> Iterator[Problem]:
    if "shrink" not in raw:
        return
    axes = _table(raw, "axes")
    for table in [table for table in _table(raw, "cases").values() if isinstance(table, dict)] or [{}]:
        env = {**_table(raw, "env"), **table}
        for name in SIZED_BY:
            text = env.get(name)
            axis = placeholders(text)[0] if isinstance(text, str) and placeholders(text) else ""
            values = _list(axes, axis) if text == f"{{{axis}}}" else [text]
            if not values or not all(str(value).isdecimal() for value in values):
                yield "shrink", f"its rule needs {', '.join(SIZED_BY)} as whole numbers in env or cases; {name} is not"
                return


def _inspect(raw: dict[str, Any], _subjects: Sequence[str]) -> Iterator[Problem]:
    if raw.get("inspect") is True and "changes" in raw and PLAIN not in _list(raw, "changes"):
        yield "inspect", f"only runs with nothing changed are inspected; add {PLAIN!r} to changes"
    if "inspect_env" in raw and raw.get("inspect") is not True:
        yield "inspect_env", "there is no inspected run to set it for; add inspect = true"


def _rehearse(raw: dict[str, Any], _subjects: Sequence[str]) -> Iterator[Problem]:
    counts = _list(raw, "rehearse")
    for index, count in enumerate(counts):
        if count in counts[:index]:
            yield f"rehearse[{index}]", f"{count} is named twice"
    if counts and raw.get("mode") == "python":
        yield "rehearse", "mode 'python' starts one plain process, which has no ranks to rehearse; use mode 'torchrun'"
    if counts and "changes" in raw and PLAIN not in _list(raw, "changes"):
        yield "rehearse", f"only runs with nothing changed are rehearsed; add {PLAIN!r} to changes"


def _placeholders(raw: dict[str, Any], _subjects: Sequence[str]) -> Iterator[Problem]:
    known = [*([CASE] if "cases" in raw else []), *_table(raw, "axes"), "ranks", "device"]
    for place, text in _texts(raw).items():
        for name in placeholders(text):
            if name not in known:
                near = did_you_mean(name, known) or f"known are {', '.join(known)}"
                yield place, f"{{{name}}} is not an axis; {near} (write {{{{{name}}}}} for the text itself)"


def _changes(raw: dict[str, Any], _subjects: Sequence[str]) -> Iterator[Problem]:
    most = max((count for count in _list(raw, "ranks") if _is_int(count)), default=1)
    seen = []
    for index, text in enumerate(_list(raw, "changes")):
        place = f"changes[{index}]"
        if not isinstance(text, str):
            continue
        try:
            found = parse_changes(text)
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
    axes = _table(raw, "axes") | ({CASE: list(_table(raw, "cases"))} if "cases" in raw else {})
    choices = {**axes, "ranks": raw.get("ranks", [1]), "change": raw.get("changes", ["none"])}
    for name, value in _table(raw, "base").items():
        if name not in choices:
            near = did_you_mean(name, choices) or f"allowed are {', '.join(choices)}"
            yield f"base.{name}", f"not an axis of this experiment; {near}"
        elif isinstance(choices[name], list) and value not in choices[name]:
            yield f"base.{name}", f"{value!r} is not among its values {choices[name]!r}"


def _devices(raw: dict[str, Any], _subjects: Sequence[str]) -> Iterator[Problem]:
    text = raw.get("devices", "")
    if isinstance(text, str) and text and not placeholders(text) and not (text.isdecimal() and int(text)):
        yield "devices", f'{text!r} is not a number of devices; write "2", or "{{axis}}" for the value of an axis'


def _texts(raw: dict[str, Any]) -> dict[str, str]:
    """All texts in which {axis} may occur, by their place."""
    places = {field: raw.get(field) for field in ("script", "devices")}
    places |= {f"args[{index}]": text for index, text in enumerate(_list(raw, "args"))}
    for field in ("env", "inspect_env"):
        places |= {f"{field}.{name}": text for name, text in _table(raw, field).items()}
    for case, table in _table(raw, "cases").items():
        if isinstance(table, dict):
            places |= {f"cases.{case}.{name}": text for name, text in table.items()}
    return {place: text for place, text in places.items() if isinstance(text, str)}


def _list(raw: dict[str, Any], field: str) -> list[Any]:
    value = raw.get(field)
    return value if isinstance(value, list) else []


def _table(raw: dict[str, Any], field: str) -> dict[str, Any]:
    value = raw.get(field)
    return value if isinstance(value, dict) else {}


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


CHECKS = (
    _script,
    _ranks,
    _axes,
    _cases,
    _placeholders,
    _changes,
    _base,
    _shrink,
    _inspect,
    _rehearse,
    _devices,
)
