"""One configuration that was recorded several times on a GPU has one step: the mean of its recordings."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import exp, hypot, log, sqrt
from pathlib import Path
from statistics import mean, stdev

from scalewise.analysis.estimate import LEAST_DEGREES, Estimate, RunMedian, estimate, t_quantile

CHANGE_NO_STEP = ("STEPS", "WARMUP", "SEED", "DEVICE", "LR")
# What the course's scripts do where a variable is not set.
UNSET = {
    "course:practical7_accumulation.py": {"ACCUM_STEPS": "4"},
    "course:practical7_amp.py": {"PRECISION": "float16"},
    "course:practical5_single.py": {"ACCUM_STEPS": "4", "PRECISION": "float16"},
}
NOTHING_AT_ZERO = ("DELAY", "IMBALANCE")


def work_key(suite: str, experiment: str, axes: Mapping[str, str], env: Mapping[str, str]) -> tuple[object, ...]:
    """Returns what all recordings of the same work have in common: the script, and the variables that change a step."""
    script = _script(suite, experiment, axes)
    told = {
        name: value
        for name, value in {**UNSET.get(script, {}), **env}.items()
        if name not in CHANGE_NO_STEP and not (name in NOTHING_AT_ZERO and _zero(value))
    }
    return script, tuple(sorted(told.items()))


def mean_of_measured(found: Sequence[Estimate]) -> Estimate:
    """The geometric mean, with an interval that holds the spread between the recordings."""
    if len(found) == 1:
        return found[0]
    pooled = estimate([RunMedian(one.value, one.low, one.high, one.steps, one.level) for one in found])
    runs = sum(one.runs for one in found)
    return replace(pooled, runs=runs, method=f"mean of {len(found)} recordings of this configuration")


def mean_of_predicted(found: Sequence[Estimate]) -> Estimate:
    """The geometric mean; what the predictions may be off by is common to them, and does not shrink with their number.

    So their own intervals stay as wide as they are on average, and the spread between them is added.
    """
    if len(found) == 1:
        return found[0]
    middle = exp(mean(log(one.value) for one in found))
    spread = stdev(log(one.value) for one in found) / sqrt(len(found))
    more = t_quantile(found[0].level, max(LEAST_DEGREES, len(found) - 1)) * spread
    down = hypot(sqrt(mean(log(one.value / one.low) ** 2 for one in found)), more)
    up = hypot(sqrt(mean(log(one.high / one.value) ** 2 for one in found)), more)
    return replace(found[0], value=middle, low=middle * exp(-down), high=middle * exp(up))


@cache
def _scripts(suite: str) -> Mapping[str, str]:
    """The script of each experiment, as the suite names it."""
    file = Path(__file__).with_name(suite) / "suite.toml"
    if not file.is_file():
        return {}
    told = tomllib.loads(file.read_text(encoding="utf-8"))
    return {one["name"]: str(one.get("script", "")) for one in told.get("experiment", ())}


def _script(suite: str, experiment: str, axes: Mapping[str, str]) -> str:
    """The experiment's script with the axes' values; an experiment that is in no suite is not the same as any other."""
    script = _scripts(suite).get(experiment, f"{suite}/{experiment}")
    for name, value in axes.items():
        script = script.replace(f"{{{name}}}", value)
    return script


def _zero(value: str) -> bool:
    try:
        return float(value) == 0
    except ValueError:
        return False
