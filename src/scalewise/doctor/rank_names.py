"""Short texts that several checks share: names of ranks, counts."""

from collections.abc import Sequence


def named_ranks(ranks: Sequence[int], small: bool = False) -> str:
    """Returns `Ranks 0, 1 and 3`, `Rank 2`; `ranks ...` if `small`, for the inside of a sentence."""
    numbers = [str(rank) for rank in ranks]
    listed = numbers[0] if len(numbers) == 1 else f"{', '.join(numbers[:-1])} and {numbers[-1]}"
    text = f"rank{'s' if len(numbers) > 1 else ''} {listed}"
    return text if small else text.capitalize()


def counted(count: int, thing: str) -> str:
    """Returns `1 batch`, `16 batches`."""
    plural = f"{thing}es" if thing.endswith(("s", "ch", "x")) else f"{thing}s"
    return f"{count} {thing if count == 1 else plural}"
