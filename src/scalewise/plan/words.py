"""Short texts that people type: ranks, changes from outside, and {axis} placeholders."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction

from scalewise.errors import BadRequest, did_you_mean
from scalewise.records.changes import Declared, Kind, declared, known_changes
from scalewise.records.spec import AxisValue, Change

MOST_RANKS = 1024  # more on one node is a typing error
PLAIN = "none"  # for an arm in which nothing is changed

LINK = "emulate_link"
MOST_WORKERS = 256
# Exact, so that 20us is 2e-05 and not a neighbour of it.
_SECONDS = {"s": Fraction(1), "ms": Fraction(1, 10**3), "us": Fraction(1, 10**6)}
_BYTES = {f"{prefix}B/s": Fraction(1000**power) for power, prefix in enumerate(("", "k", "M", "G", "T"))}
_BITS = {f"{prefix}bit/s": Fraction(1000**power, 8) for power, prefix in enumerate(("", "k", "M", "G", "T"))}
MOST_BYTES_PER_SECOND = 1e15  # a thousand times what any link does

_PLACEHOLDER = re.compile(r"\{(\{[A-Za-z_]\w*\})\}|\{([A-Za-z_]\w*)\}", re.ASCII)


def parse_ranks(text: str) -> tuple[int, ...]:
    """The numbers of ranks in a text such as `1,2,4`, in the order given."""
    words = [word.strip() for word in text.split(",")]
    if not any(words):
        raise BadRequest("--ranks is empty.", "Give numbers of ranks to measure, such as --ranks 1,2,4.")
    ranks = tuple(_one_rank_count(word, text) for word in words)
    twice = sorted({count for count in ranks if ranks.count(count) > 1})
    if twice:
        raise BadRequest(
            f"--ranks {text} names {twice[0]} more than once.",
            "Use --repeat to measure an arm several times.",
        )
    return ranks


def parse_nodes(text: str) -> tuple[int, ...]:
    """The numbers of hosts in a text such as `1,2`, in the order given."""
    words = [word.strip() for word in text.split(",")]
    if not all(re.fullmatch(r"[1-9][0-9]{0,4}", word) for word in words) or len({*words}) < len(words):
        raise BadRequest(f"--nodes {text[:60]!r} is no number of hosts.", "Write it as --nodes 2, or --nodes 1,2,4.")
    return tuple(map(int, words))


def _one_rank_count(word: str, text: str) -> int:
    example = "Give whole numbers separated by commas, such as --ranks 1,2,4."
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", word):
        what = f"{word[:30]!r} is not a whole number" if word else "a number is missing between the commas"
        raise BadRequest(f"--ranks {text[:60]}: {what}.", example)
    problem = ranks_problem(int(word))
    if problem:
        raise BadRequest(f"--ranks {text[:60]}: {problem}.", example)
    return int(word)


def ranks_problem(count: int) -> str:
    """The reason why this cannot be a number of ranks; empty if it can."""
    if count < 1:
        return f"{count} is not a number of ranks; the smallest is 1"
    if count > MOST_RANKS:
        return f"{count} ranks are more than the {MOST_RANKS} that one node is allowed here"
    return ""


def parse_changes(text: str) -> tuple[Change, ...]:
    """Reads `none`, or one or more of `NAME[:SETTING,...][@RANK]` joined by `+`; a setting is a value, or KEY=VALUE."""
    if text.strip() == PLAIN:
        return ()
    found = tuple(_one_change(part.strip()) for part in text.split("+"))
    names = [change.name for change in found]
    if len(set(names)) < len(names):
        raise BadRequest(f"{text!r} names one change twice.", "Name each once.")
    return found


def _one_change(text: str) -> Change:
    name, _, rest = text.partition(":")
    words, at, rank_word = rest.partition("@")
    if not rest and "@" in name:
        name, at, rank_word = name.partition("@")
    if name not in known_changes():
        near = did_you_mean(name, (*known_changes(), PLAIN))
        allowed = ", ".join((PLAIN, *(declared(one).example or one for one in known_changes())))
        raise BadRequest(f"{name!r} is not a change{'; ' + near if near else '.'}", f"Allowed: {allowed}.")
    return _read_change(name, words, rank_word if at else None, text, f"Write it as {declared(name).example or name}.")


def parse_link(words: str, text: str, hint: str) -> Change:
    """An emulated link from `1ms,1GB/s`; `text` is what the person wrote, for the sentence that refuses it."""
    return _read_change(LINK, words, None, text, hint)


def _read_change(name: str, words: str, rank_word: str | None, text: str, hint: str) -> Change:
    known = declared(name)
    asked = [key for key, kind in known.settings.items() if kind not in ("rank", "option")]
    written = _by_key(words, known, asked, text, hint)
    missing = [key for key in asked if key not in written and key not in known.optional]
    if missing or (known.open and not written):
        raise BadRequest(f"{text!r} lacks its {' and '.join(map(_noun(known), missing or known.settings))}.", hint)
    if (rank_word is not None) != ("rank" in known.settings):
        raise BadRequest(f"{text!r} {'takes no rank' if rank_word is not None else 'lacks its rank'}.", hint)
    if rank_word is not None:
        written["rank"] = rank_word
    return Change(
        name, {key: _value(known.settings.get(key, "option"), one, text, hint) for key, one in written.items()}
    )


def _by_key(words: str, known: Declared, asked: Sequence[str], text: str, hint: str) -> dict[str, str]:
    """The settings as they are written; values without a key are those that are asked for, in their order."""
    written: dict[str, str] = {}
    for word in (part.strip() for part in words.split(",")) if words.strip() else ():
        key, named, value = word.partition("=")
        free = [one for one in asked if one not in written]
        if named and (key in known.settings or known.open) and key not in written:
            written[key] = value
        elif written and known.settings.get(list(written)[-1]) == "words":
            written[list(written)[-1]] += f",{word}"
        elif free and not named:
            written[free[0]] = word
        else:
            what = f"takes no {key}" if named else f"takes no {'further ' if written else ''}value"
            raise BadRequest(f"{text!r} {what}.", hint)
    return written


def _noun(known: Declared) -> Callable[[str], str]:
    """Returns the function that names a missing setting as a person would."""
    kinds = {"seconds", "latency", "rate"}
    names = {"workers": "number of workers", "option": "options, such as KEY=VALUE"}
    return lambda key: known.settings[key] if known.settings[key] in kinds else names.get(known.settings[key], key)


def _value(kind: Kind, word: str, text: str, hint: str) -> AxisValue:
    if kind in ("words", "option"):
        return word if kind == "words" else _option(word)
    what, read = _KINDS[kind]
    value = read(word)
    if value is None:
        raise BadRequest(f"{text!r}: {word!r} is not {what}.", hint)
    return value


def _option(word: str) -> AxisValue:
    """Returns the value that the word stands for in Python: a truth value, a number, or else text."""
    whole, number = _whole(word), _number(word)
    if word in ("True", "False", "true", "false"):
        return word in ("True", "true")
    return whole if whole is not None else number if number is not None else word


def _whole(word: str, most: int = 10**9) -> int | None:
    return int(word) if re.fullmatch(r"[0-9]{1,9}", word) and int(word) <= most else None


def _number(word: str) -> float | None:
    try:
        number = float(word)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _within(number: float | None, low: float, high: float) -> float | None:
    return number if number is not None and low <= number <= high else None


def _seconds(word: str) -> float | None:
    seconds = _within(_number(word), 0, 3600)
    return seconds or None


# kind -> (what a value of it is, how it is read: None where it is not one)
_KINDS: dict[str, tuple[str, Callable[[str], AxisValue | None]]] = {
    "seconds": ("a number of seconds above 0 and at most 3600", _seconds),
    "latency": ("a latency from 0 to 3600 s", lambda word: _within(_with_unit(word, _SECONDS), 0, 3600)),
    "rate": (
        "a rate from 1 B/s to 1000 TB/s",
        lambda word: _within(_with_unit(word, _BYTES | _BITS), 1, MOST_BYTES_PER_SECOND),
    ),
    "rank": ("a rank", _whole),
    "workers": (f"a number of workers from 0 to {MOST_WORKERS}", lambda word: _whole(word, MOST_WORKERS)),
    "loader": ("the number of a loader, counted from 0", _whole),
    "whole": ("a whole number", lambda word: _whole(word) or None),
    "number": ("a number", _number),
}


def _with_unit(word: str, units: Mapping[str, Fraction]) -> float | None:
    """A number followed by one of the units; None if the word is not of that form."""
    found = re.fullmatch(r"([0-9.]+(?:e-?[0-9]{1,3})?) ?([A-Za-z/]*)", word, re.ASCII)
    try:
        return float(Fraction(found[1]) * units[found[2]]) if found else None
    except (ValueError, KeyError, OverflowError):
        return None


def _rate_text(rate: float) -> str:
    """Writes a rate so that it reads back as the very same number."""
    for unit, scale in reversed(_BYTES.items()):
        number = f"{rate / float(scale):.10g}"
        if rate >= scale and _with_unit(f"{number}{unit}", _BYTES) == rate:
            return f"{number}{unit}"
    return f"{rate!r}B/s"


def changes_text(changes: Iterable[Change]) -> str:
    """The inverse of `parse_changes`."""
    return " + ".join(map(_change_text, changes)) or PLAIN


def _change_text(change: Change) -> str:
    known, parts, rank = declared(change.name), [], ""
    for key, value in change.settings.items():
        kind = known.settings.get(key, "option")
        if kind == "rank":
            rank = f"@{value}"
        elif kind == "rate":
            parts.append(_rate_text(float(value)))
        elif kind in ("seconds", "latency", "workers"):
            parts.append(f"{value!r}{'s' if kind == 'latency' else ''}")
        else:
            parts.append(f"{key}={value}")
    return f"{change.name}{':' * bool(parts)}{','.join(parts)}{rank}"


def short_text(text: str) -> str:
    """Returns the text of `changes_text` with the short names of tables."""
    return re.sub(r"(^|(?<= \+ ))\w+", lambda match: declared(match[0]).short or match[0], text)


def value_text(value: AxisValue) -> str:
    """An axis value as a script is given it; booleans as TOML writes them."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def placeholders(text: str) -> tuple[str, ...]:
    """The names in {braces}; {{name}} means the text {name} itself, and other braces are left alone."""
    return tuple(match[2] for match in _PLACEHOLDER.finditer(text) if match[2])


def escaped(text: str) -> str:
    """The text with every {name} doubled to {{name}}, so that `filled` leaves it as it is."""
    return re.sub(r"\{([A-Za-z_]\w*)\}", r"{{\1}}", text, flags=re.ASCII)


def filled(text: str, values: Mapping[str, AxisValue]) -> str:
    """The text with every {name} replaced by its value."""
    return _PLACEHOLDER.sub(lambda match: match[1] or value_text(values[match[2]]), text)
