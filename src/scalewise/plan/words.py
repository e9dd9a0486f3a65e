"""Parses and writes short texts that people type: ranks, interventions, and {axis} placeholders."""

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction

from scalewise.errors import BadRequest, did_you_mean
from scalewise.records.spec import AxisValue, Intervention

MOST_RANKS = 1024  # more on one node is a typing error
PLAIN = "none"  # the intervention that changes nothing

LINK = "emulate_link"
WORKERS = "workers"
MOST_WORKERS = 256

# kind -> (takes seconds, takes a rank, an example)
INTERVENTIONS = {
    "remove_communication": (False, False, "remove_communication"),
    "sleep_before_backward": (True, False, "sleep_before_backward:0.01"),
    "slow_rank": (True, True, "slow_rank:0.02@0"),
    LINK: (True, False, "emulate_link:1ms,1GB/s"),
    WORKERS: (True, False, "workers:4"),
}
# Exact fractions, so that 20us is 2e-05 and not a neighbouring float.
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


def parse_intervention(text: str) -> tuple[Intervention, ...]:
    """The interventions in a text: `none`, or parts joined by `+`.

    A part is `KIND[:SECONDS][@RANK]`, `emulate_link:LATENCY,RATE` or `workers:COUNT`.
    """
    if text.strip() == PLAIN:
        return ()
    found = tuple(_one_intervention(part.strip()) for part in text.split("+"))
    kinds = [intervention.kind for intervention in found]
    if len(set(kinds)) < len(kinds):
        raise BadRequest(f"{text!r} names one kind of intervention twice.", "Name each kind once.")
    return found


def _one_intervention(text: str) -> Intervention:
    kind, _, rest = text.partition(":")
    seconds_word, at, rank_word = rest.partition("@")
    if not rest and "@" in kind:
        kind, at, rank_word = kind.partition("@")
    if kind not in INTERVENTIONS:
        near = did_you_mean(kind, (*INTERVENTIONS, PLAIN))
        allowed = ", ".join((PLAIN, *(example for _, _, example in INTERVENTIONS.values())))
        raise BadRequest(f"{kind!r} is not an intervention{'; ' + near if near else '.'}", f"Allowed: {allowed}.")
    takes_seconds, takes_rank, example = INTERVENTIONS[kind]
    hint = f"Write it as {example}."
    if kind == LINK and not at:
        return parse_link(seconds_word, text, hint)
    if kind == WORKERS and not at:
        return _workers(seconds_word, text, hint)
    if takes_seconds != bool(seconds_word):
        raise BadRequest(f"{text!r} {'lacks its seconds' if takes_seconds else 'takes no seconds'}.", hint)
    if bool(at) != takes_rank:
        raise BadRequest(f"{text!r} {'lacks its rank' if takes_rank else 'takes no rank'}.", hint)
    seconds = _seconds(seconds_word, text, hint) if takes_seconds else 0.0
    rank = _rank(rank_word, text, hint) if takes_rank else None
    return Intervention(kind, seconds, rank)  # type: ignore[arg-type]


def _workers(word: str, text: str, hint: str) -> Intervention:
    if not re.fullmatch(r"[0-9]{1,9}", word) or int(word) > MOST_WORKERS:
        raise BadRequest(f"{text!r}: {word!r} is not a number of workers from 0 to {MOST_WORKERS}.", hint)
    return Intervention(WORKERS, count=int(word))  # type: ignore[arg-type]


def parse_link(words: str, text: str, hint: str) -> Intervention:
    """An emulated link from `1ms,1GB/s`; `text` is what the person wrote, for the sentence that refuses it."""
    latency_word, comma, rate_word = (part.strip() for part in words.partition(","))
    if not comma:
        raise BadRequest(f"{text!r} lacks its {'rate' if words else 'latency and rate'}.", hint)
    latency = _with_unit(latency_word, _SECONDS)
    if latency is None or not 0 <= latency <= 3600:
        raise BadRequest(f"{text!r}: {latency_word!r} is not a latency from 0 to 3600 s.", hint)
    rate = _with_unit(rate_word, _BYTES | _BITS)
    if rate is None or not 1 <= rate <= MOST_BYTES_PER_SECOND:
        raise BadRequest(f"{text!r}: {rate_word!r} is not a rate from 1 B/s to 1000 TB/s.", hint)
    return Intervention(LINK, latency, None, rate)  # type: ignore[arg-type]


def _with_unit(word: str, units: Mapping[str, Fraction]) -> float | None:
    """A number followed by one of the units; None if the word is not of that form."""
    found = re.fullmatch(r"([0-9.]+(?:e-?[0-9]{1,3})?) ?([A-Za-z/]*)", word, re.ASCII)
    try:
        return float(Fraction(found[1]) * units[found[2]]) if found else None
    except (ValueError, KeyError, OverflowError):
        return None


def _link_text(link: Intervention) -> str:
    """The link as text that reads back as exactly the same numbers."""
    for unit, scale in reversed(_BYTES.items()):
        number = f"{link.bytes_per_second / float(scale):.10g}"
        if link.bytes_per_second >= scale and _with_unit(f"{number}{unit}", _BYTES) == link.bytes_per_second:
            return f"{link.kind}:{link.seconds!r}s,{number}{unit}"
    return f"{link.kind}:{link.seconds!r}s,{link.bytes_per_second!r}B/s"


def _seconds(word: str, text: str, hint: str) -> float:
    try:
        seconds = float(word)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= 3600:
        raise BadRequest(f"{text!r}: {word!r} is not a number of seconds above 0 and at most 3600.", hint)
    return seconds


def _rank(word: str, text: str, hint: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", word):
        raise BadRequest(f"{text!r}: {word!r} is not a rank.", hint)
    return int(word)


def intervention_text(interventions: Iterable[Intervention]) -> str:
    """The text from which `parse_intervention` gives these interventions."""
    parts = []
    for one in interventions:
        if one.kind == LINK:
            parts.append(_link_text(one))
            continue
        if one.kind == WORKERS:
            parts.append(f"{one.kind}:{one.count}")
            continue
        seconds = f":{one.seconds!r}" if one.seconds else ""
        rank = f"@{one.rank}" if one.rank is not None else ""
        parts.append(f"{one.kind}{seconds}{rank}")
    return " + ".join(parts) or PLAIN


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
