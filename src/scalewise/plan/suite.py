"""Reads a suite from TOML and says everything that is wrong with it at once, path by path."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from scalewise.errors import BadRequest, did_you_mean
from scalewise.plan.experiment import (
    BUILT_IN,
    CASE,
    COURSE,
    LIMIT_SECONDS,
    NODES,
    RESERVED_AXES,
    SIZED_BY,
    STALL_SECONDS,
    DeviceChoice,
    Experiment,
    FewCores,
    FewGpus,
    Shrink,
    Suite,
    subject_names,
)
from scalewise.plan.words import MOST_RANKS, PLAIN, escaped, parse_changes, placeholders
from scalewise.records.spec import AxisValue, LauncherName, Mode, Scaling
from scalewise.units import with_small, without_stop

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
    nodes = [count for count in _list(raw, "nodes") if _is_int(count)]
    for index, count in enumerate(nodes):
        if count in nodes[:index]:
            yield f"nodes[{index}]", f"{count} is named twice"
    if raw.get("mode") == "python" and any(count != 1 for count in nodes):
        yield "nodes", "mode 'python' starts one plain process, on one host; leave nodes out or use mode 'torchrun'"
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
                "this name is taken; ranks, nodes, repeat and changes are fields of their own",
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
    own = [*([CASE] if "cases" in raw else []), *([NODES] if "nodes" in raw else [])]
    known = [*own, *_table(raw, "axes"), "ranks", "device"]
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
            yield place, without_stop(f"{problem.sentence} {problem.hint}")
            continue
        if found in seen:
            yield place, f"{text!r} is named twice"
        seen.append(found)
        for one in found:
            if one.rank is not None and one.rank >= most:
                yield place, f"there is no rank {one.rank} among {most}"


def _base(raw: dict[str, Any], _subjects: Sequence[str]) -> Iterator[Problem]:
    axes = _table(raw, "axes") | ({CASE: list(_table(raw, "cases"))} if "cases" in raw else {})
    axes |= {NODES: raw["nodes"]} if "nodes" in raw else {}
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


Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
SYNONYMS = {"gpu": "cuda"}  # words close in meaning but not in letters
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ShrinkTable(BaseModel):
    """The `shrink` table of an experiment."""

    model_config = ConfigDict(extra="forbid", strict=True)

    gflop_per_core: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ExperimentTable(BaseModel):
    """One [[experiment]] table of the TOML, field by field."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Name
    script: Annotated[str, Field(min_length=1)]
    title: str = ""
    question: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    mode: Mode = "torchrun"
    device: DeviceChoice = "auto"
    launcher: LauncherName = "fork"
    ranks: Annotated[list[Annotated[int, Field(ge=1, le=MOST_RANKS)]], Field(min_length=1)] = [1]
    nodes: Annotated[list[Annotated[int, Field(ge=1, le=MOST_RANKS)]], Field(min_length=1)] = []
    repeat: Annotated[int, Field(ge=1, le=1000)] = 1
    axes: dict[str, Annotated[list[AxisValue], Field(min_length=1)]] = {}
    changes: Annotated[list[str], Field(min_length=1)] = [PLAIN]
    scaling: Scaling = "auto"
    base: dict[str, AxisValue] = {}
    interleave: bool = True
    turns: bool = False
    devices: str = ""
    few_gpus: FewGpus = "refuse"
    few_cores: FewCores = "share"
    cases: dict[Name, Annotated[dict[str, str], Field(min_length=1)]] = {}
    shrink: ShrinkTable | None = None
    inspect: bool = False
    inspect_env: dict[str, str] = {}
    gpu_env: dict[str, str] = {}
    rehearse: Annotated[list[Annotated[int, Field(ge=2, le=MOST_RANKS)]], Field(min_length=1)] = []
    limit_seconds: Seconds = LIMIT_SECONDS
    stall_seconds: Seconds = STALL_SECONDS
    steps: Annotated[int, Field(ge=0)] = 0
    in_place: bool = False


class SuiteTable(BaseModel):
    """The whole TOML file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Name
    title: str = ""
    about: str = ""
    experiment: Annotated[list[ExperimentTable], Field(min_length=1)]


def load_suite(path: Path) -> Suite:
    """The suite in this file, or one `BadRequest` that lists everything wrong with it."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(f"{path} is not UTF-8 text (byte {error.start}).", "Save it as UTF-8.") from None
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror or error}.", "Check the path.") from None
    return read_suite(text, path)


def read_suite(text: str, path: Path) -> Suite:
    """The suite in this text; `path` is where it came from, for messages and for scripts beside it."""
    try:
        data = _in_new_words(tomllib.loads(text))
    except (ValueError, RecursionError) as error:
        what = str(error) if isinstance(error, tomllib.TOMLDecodeError) else type(error).__name__
        raise BadRequest(
            f"{path} is not valid TOML: {what.replace(' (at ', ' at ').rstrip(')')}.",
            'Texts need quotes and lists need brackets: ranks = [1, 2], device = "cpu".',
        ) from None
    table, problems = _validated(data)
    problems += meaning_problems(data, subject_names())
    if problems or table is None:
        raise BadRequest(_listing(path, problems), "Correct the file and run the same command again.")
    experiments = tuple(_experiment(one, path.resolve().parent) for one in table.experiment)
    return Suite(table.name, experiments, table.title, table.about, source=text)


def _in_new_words(data: dict[str, Any]) -> dict[str, Any]:
    """The same data with `changes` instead of `interventions`, as older suites and copies in run folders call them."""
    tables = data.get("experiment")
    for table in tables if isinstance(tables, list) else ():
        for old, new, place in (
            ("interventions", "changes", table),
            ("intervention", "change", table.get("base") if isinstance(table, dict) else None),
        ):
            if isinstance(place, dict) and old in place and new not in place:
                place[new] = place.pop(old)
    return data


def _listing(path: Path, problems: Sequence[Problem]) -> str:
    unique = list(dict.fromkeys(f"  {where}: {what}" for where, what in problems))
    count = "1 error" if len(unique) == 1 else f"{len(unique)} errors"
    return "\n".join([f"{path} has {count}:", *unique])


def _experiment(table: ExperimentTable, folder: Path) -> Experiment:
    values = table.model_dump()
    named = table.script.startswith((BUILT_IN, COURSE))
    values["script"] = table.script if named else str((Path(escaped(str(folder))) / table.script).resolve())
    values["args"] = tuple(table.args)
    values["ranks"] = tuple(table.ranks)
    values["nodes"] = tuple(table.nodes)
    values["rehearse"] = tuple(table.rehearse)
    values["axes"] = {name: tuple(items) for name, items in table.axes.items()}
    values["changes"] = tuple(parse_changes(text) for text in table.changes)
    values["shrink"] = Shrink(table.shrink.gflop_per_core) if table.shrink else None
    return Experiment(**values)


def _validated(data: dict[str, Any]) -> tuple[SuiteTable | None, list[Problem]]:
    try:
        return SuiteTable.model_validate(data), []
    except ValidationError as failure:
        details = failure.errors(include_url=False)
        return None, [_problem(detail) for detail in details]


def _problem(detail: ErrorDetails) -> Problem:
    kind, context, value = detail["type"], detail.get("ctx", {}), detail["input"]
    place = _place(detail["loc"])
    if kind == "extra_forbidden":
        table: type[BaseModel] = ExperimentTable if detail["loc"][0] == "experiment" else SuiteTable
        table = ShrinkTable if "shrink" in detail["loc"][:-1] else table
        fields = list(table.model_fields)
        near = did_you_mean(str(detail["loc"][-1]), fields)
        return place, f"unknown field; {near or 'allowed are ' + ', '.join(fields)}"
    if kind == "missing":
        return place, "is required"
    if kind == "literal_error":
        allowed = str(context["expected"])
        near = did_you_mean(
            SYNONYMS.get(str(value), str(value)),
            [word.strip("' ") for word in allowed.replace(" or ", ", ").split(",")],
        )
        return place, f"{_short(value)} is not one of {allowed}{'; ' + near if near else ''}"
    if kind == "string_pattern_mismatch":
        return place, f"{_short(value)} is not a name; use small letters, digits, - and _, at most 64"
    if _branch(detail["loc"]):
        return place, f"{_short(value)} is not a text, a number, true or false"
    return place, f"{_short(value)}: {with_small(detail['msg'])}"


def _branch(location: tuple[int | str, ...]) -> bool:
    """Tells whether the last part is a branch of a union, which pydantic appends, and not a place in the file."""
    in_union = isinstance(location[-2], int) or location[-3] == "base" if len(location) > 3 else False
    return in_union and location[-1] in ("str", "int", "float", "bool")


def _place(location: tuple[int | str, ...]) -> str:
    """A place in the TOML as text, such as `experiment[1].ranks[0]`."""
    text = ""
    for part in location[:-1] if _branch(location) else location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
