"""Reads a suite from TOML and says everything that is wrong with it at once, path by path."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from scalewise.errors import BadRequest, did_you_mean
from scalewise.plan.experiment import (
    BUILT_IN,
    COURSE,
    LIMIT_SECONDS,
    STALL_SECONDS,
    DeviceChoice,
    Experiment,
    FewCores,
    FewGpus,
    Suite,
    subject_names,
)
from scalewise.plan.shrink import Shrink
from scalewise.plan.suite_checks import Problem, meaning_problems
from scalewise.plan.words import MOST_RANKS, PLAIN, escaped, parse_changes
from scalewise.records.spec import AxisValue, LauncherName, Mode, Scaling

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
    return place, f"{_short(value)}: {_lower(detail['msg'])}"


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


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]
