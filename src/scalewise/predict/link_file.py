"""Reads a link that the user describes in a TOML file; every mistake in it is reported at once."""

import tomllib
from math import inf
from pathlib import Path
from typing import Any

from scalewise.errors import BadRequest, did_you_mean
from scalewise.predict.catalogue import wire_of
from scalewise.predict.link import Link, LinkCurve, Wire

KEYS = ("name", "source", "spread", "ranks_per_node", "inside", "between", "measured")
CURVE_KEYS = ("ranks", "nodes", "bytes", "microseconds")
WIRE_KEYS = {"start_us": 0.0, "hop_us": 0.0, "gigabytes_per_second": None, "handled_ps_per_byte": 0.0}
SPREAD = 0.10  # if the file gives none
MOST_SPREAD = 2.0
LARGEST = 1e30  # no link has such a figure, and what is computed from it still fits a float
MOST_RANKS = 1_000_000
MOST_LETTERS = 60  # of a value in a sentence
EXAMPLE = """A link is described so:
name = "our cluster"
source = "nccl-tests of last week"
spread = 0.05          # how far times differ from the figures, as a share
ranks_per_node = 8     # only with [between]
[inside]
start_us = 20.0        # once for a collective
hop_us = 3.0           # for each rank that passes it on
gigabytes_per_second = 300.0   # of one rank, each way
[between]              # left out: all ranks are of one node
start_us = 20.0
hop_us = 10.0
gigabytes_per_second = 50.0    # of a whole node, each way
[[measured]]           # left out: nothing is known but these figures; all-reduces whose times replace theirs
ranks = 16
nodes = 2
bytes = [1024, 1048576]
microseconds = [70.0, 180.0]"""


def link_from_file(path: Path, per_node: int | None = None) -> Link:
    """The link described in the file, or a BadRequest with everything that is wrong with it."""
    data = _read(path)
    problems = [f"{key!r} is not known" + _asked(key, KEYS) for key in data if key not in KEYS]
    inside = _wire(data, "inside", problems)
    between = _wire(data, "between", problems) if "between" in data else None
    if "inside" not in data:
        problems.append("[inside] is missing")
    spread = _number(data, "spread", problems, SPREAD, most=MOST_SPREAD)
    told = _whole(data, "ranks_per_node", problems)
    texts = {key: _text(data, key, problems) for key in ("name", "source")}
    curves = _curves(data, problems)
    nodes = per_node or told
    if "between" in data and not nodes:
        problems.append("[between] is there, and ranks_per_node is not (or give --per-node)")
    if "between" not in data and any(one.nodes > 1 for one in curves):
        problems.append("[[measured]] tells of several nodes, and what is [between] them is not said")
    if "between" not in data and nodes:
        problems.append("ranks_per_node is said, and what is [between] the nodes is not")
    if problems or inside is None:
        raise BadRequest(f"{path}: {'; '.join(problems)}.", EXAMPLE)
    guesses = () if "spread" in data else (f"that {path.name} is right within {100 * SPREAD:.0f} %: it says no spread",)
    return Link(
        name=texts["name"] or path.stem,
        inside=inside,
        between=between,
        ranks_per_node=nodes if between else 0,
        origin="given",
        source=texts["source"] or str(path),
        spread=spread,
        guesses=guesses,
        curves=curves,
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadRequest(f"There is no link file {path}.", EXAMPLE) from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"{path} cannot be read: {error}.", EXAMPLE) from None
    except (ValueError, RecursionError) as error:  # besides bad TOML: numbers too long to read, tables nested too deep
        raise BadRequest(f"{path} is not TOML: {error}.", EXAMPLE) from None


def _wire(data: dict[str, Any], where: str, problems: list[str]) -> Wire | None:
    table = data.get(where)
    if table is None:
        return None
    if not isinstance(table, dict):
        problems.append(f"{where} must be a table with {', '.join(WIRE_KEYS)}")
        return None
    before = len(problems)
    problems += [f"{where}.{key!s} is not known" + _asked(key, WIRE_KEYS) for key in table if key not in WIRE_KEYS]
    values = {key: _number(table, key, problems, default, f"{where}.") for key, default in WIRE_KEYS.items()}
    if "gigabytes_per_second" in table and values["gigabytes_per_second"] == 0:
        problems.append(f"{where}.gigabytes_per_second must be above 0")
    return None if len(problems) > before else wire_of(values)


def _curves(data: dict[str, Any], problems: list[str]) -> tuple[LinkCurve, ...]:
    """The measured all-reduces of every `[[measured]]`."""
    tables = data.get("measured", [])
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        problems.append("measured must be tables, each headed [[measured]]")
        return ()
    curves = [_curve(table, f"measured[{index}].", problems) for index, table in enumerate(tables)]
    found = [one for one in curves if one is not None]
    if len({(one.ranks, one.nodes) for one in found}) < len(found):
        problems.append("two tables of [[measured]] have the same ranks and nodes")
    return tuple(found)


def _curve(table: dict[str, Any], where: str, problems: list[str]) -> LinkCurve | None:
    before = len(problems)
    problems += [f"{where}{key!s} is not known" + _asked(key, CURVE_KEYS) for key in table if key not in CURVE_KEYS]
    ranks, nodes = (_whole({"nodes": 1, **table}, key, problems, where) for key in ("ranks", "nodes"))
    sizes, times = (_positives(table, key, problems, where) for key in ("bytes", "microseconds"))
    if len(problems) > before:
        return None
    if ranks < 2 or ranks % nodes:
        problems.append(f"{where}ranks must be at least 2, and equally many on each of its nodes")
    if len(sizes) != len(times) or sorted(set(sizes)) != sizes:
        problems.append(f"{where}bytes must rise, and have as many entries as microseconds")
    return LinkCurve(ranks, tuple(sizes), tuple(1e-6 * one for one in times), nodes=nodes)


def _positives(table: dict[str, Any], key: str, problems: list[str], where: str) -> list[float]:
    values = table.get(key)
    if not isinstance(values, list) or not values:
        problems.append(f"{where}{key} must be a list of numbers")
        return []
    numbers = [_number({key: one}, key, problems, None, where) for one in values]
    if any(one == 0 for one in values):
        problems.append(f"{where}{key} must be above 0")
    return numbers


def _number(
    table: dict[str, Any], key: str, problems: list[str], default: float | None, where: str = "", most: float = inf
) -> float:
    value = table.get(key, default)
    if value is None:
        problems.append(f"{where}{key} is missing")
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= min(most, LARGEST):
        above = "" if most == inf else f" to {most:g}"
        problems.append(f"{where}{key} must be a number from 0{above}, not {_quoted(value)}")
        return 0.0
    return float(value)


def _whole(table: dict[str, Any], key: str, problems: list[str], where: str = "") -> int:
    value = table.get(key, 0)
    least = 1 if key in table else 0
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST_RANKS:
        problems.append(f"{where}{key} must be a whole number from 1 to {MOST_RANKS:,}, not {_quoted(value)}")
        return 0
    return value


def _text(table: dict[str, Any], key: str, problems: list[str]) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        problems.append(f"{key} must be a text, not {_quoted(value)}")
        return ""
    return value


def _quoted(value: object) -> str:
    """The value as it was written, or as much of it as a sentence can hold."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a whole number of thousands of digits cannot be written out
        return "a value too long to show"
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}..."


def _asked(key: str, allowed: Any) -> str:
    near = did_you_mean(key, allowed)
    return f" ({near})" if near else ""
