"""Every legal way to spell a call: by place, by name, mixed, with and without what may be left out.

Signatures come from `inspect.signature`; those of functions written in C from torch's own stubs.
"""

import ast
import functools
import inspect
import itertools
from pathlib import Path

import torch

STUBS = ("_C/__init__.pyi", "_C/_VariableFunctions.pyi")
PLACE, EITHER, NAME = "place", "either", "name"  # how a parameter may be given
_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: PLACE,
    inspect.Parameter.POSITIONAL_OR_KEYWORD: EITHER,
    inspect.Parameter.KEYWORD_ONLY: NAME,
}


def signatures(function, name):
    """Of each overload: the parameters in order, each with how it may be given and whether it must be."""
    try:
        found = inspect.signature(function)
    except ValueError:
        return stubbed(name)
    return [
        [
            (one.name, _KINDS[one.kind], one.default is inspect.Parameter.empty)
            for one in found.parameters.values()
            if one.kind in _KINDS
        ]
    ]


@functools.cache
def _stub_functions():
    """Class and name, or name alone -> the definitions in torch's stubs."""
    found = {}
    for file in STUBS:
        path = Path(torch.__file__).parent / file
        for node in ast.parse(path.read_text()).body if path.exists() else ():
            inside = node.body if isinstance(node, ast.ClassDef) else [node]
            prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
            for one in inside:
                if isinstance(one, ast.FunctionDef):
                    found.setdefault(f"{prefix}{one.name}", []).append(one.args)
    return found


def stubbed(name):
    """The same from the stubs; a method of a tensor stands there with the class written in C."""
    last = name.removeprefix("torch.").replace("Tensor.", "TensorBase.")
    overloads = []
    for args in _stub_functions().get(last, ()):
        defaults = [True] * (len(args.posonlyargs) + len(args.args) - len(args.defaults))
        required = iter([*defaults, *[False] * len(args.defaults)])
        parameters = [(one.arg, PLACE, next(required)) for one in args.posonlyargs]
        # A method written in C has no parameter `self`: what it is called on comes first.
        parameters += [(one.arg, PLACE if one.arg == "self" else EITHER, next(required)) for one in args.args]
        parameters += [
            (one.arg, NAME, default is None) for one, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
        ]
        overloads.append(parameters)
    return overloads


def spelled(parameters, values):
    """(arguments, keywords) of every legal spelling of a call with some or all of these values."""
    known = [one for one in parameters if one[0] in values]
    must = {name for name, _, required in known if required} | set(values.get("always", ()))
    optional = [name for name, _, _ in known if name not in must]
    chosen = [set(optional), set(), *({name} for name in optional)]
    seen = set()
    for extra in chosen:
        given = [one for one in parameters if one[0] in must | extra]
        # What is given by place must be a whole beginning of the parameters.
        places = list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(given, parameters, strict=False)))
        longest = len(list(itertools.takewhile(lambda pair: pair[0][1] != NAME, places)))
        shortest = sum(kind == PLACE for _, kind, _ in given)
        for count in range(shortest, longest + 1):
            key = (tuple(name for name, _, _ in given), count)
            if key not in seen:
                seen.add(key)
                yield [name for name, _, _ in given[:count]], [name for name, _, _ in given[count:]]
