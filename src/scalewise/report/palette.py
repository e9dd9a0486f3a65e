"""The colours of all figures: distinct for colour-blind readers, and neighbouring ones distinct in grey print."""

from collections.abc import Mapping, Sequence

# In an order in which neighbours of a stack and of a legend differ in grey, too.
SERIES = ("#12436d", "#e8752a", "#17766e", "#3f0b29", "#b79fe0", "#6b6b3a")
INK, GREY, FAINT, SHADE, PAPER = "#1a1a1a", "#7a7a7a", "#d4d4d4", "#efece4", "#fefefe"
MARKERS = ("o", "s", "^", "D", "v", "P")

# One meaning, one colour, in every figure of every report; any two of them differ in grey print.
MEANINGS: Mapping[str, str] = {
    "forward": SERIES[0],
    "backward": SERIES[1],
    "optimizer": SERIES[2],
    "communication": SERIES[3],
    "all-reduce": SERIES[3],
    "data": SERIES[4],
    "rest": "#d9d9d9",
}

# In HTML the colours are variables, so that the dark mode can lighten them.
VARIABLES: Mapping[str, str] = {
    **{colour: f"--s{number}" for number, colour in enumerate(SERIES, 1)},
    INK: "--ink",
    GREY: "--grey",
    FAINT: "--faint",
    SHADE: "--shade",
    PAPER: "--paper",
    MEANINGS["rest"]: "--rest",
}


def colours_of(names: Sequence[str]) -> dict[str, str]:
    """Returns a colour for each name: that of its meaning if it has one, else the next free one."""
    meant = {name: MEANINGS[name] for name in names if name in MEANINGS}
    free = [colour for colour in SERIES if colour not in meant.values()] or list(SERIES)
    others = [name for name in dict.fromkeys(names) if name not in meant]
    return {**meant, **{name: free[index % len(free)] for index, name in enumerate(others)}}
