"""Finds the repeated blocks of a model, by which it is sharded or cut into stages."""

from collections.abc import Iterator

from torch import nn


def repeated_blocks(model: nn.Module) -> tuple[tuple[str, nn.Module], ...]:
    """The outermost children with parameters of lists and sequences that hold at least two of them, in order."""
    return tuple(_blocks("", model))


def _blocks(prefix: str, module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    children = [(name, one) for name, one in module.named_children() if next(one.parameters(), None) is not None]
    if isinstance(module, (nn.Sequential, nn.ModuleList)) and len(children) > 1:
        yield from ((f"{prefix}{name}", one) for name, one in children)
        return
    for name, one in children:
        yield from _blocks(f"{prefix}{name}.", one)
