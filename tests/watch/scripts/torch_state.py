"""What every name of torch, and of the few other modules the watcher touches, is bound to; and what has changed."""

import sys
from types import FunctionType

OTHERS = ("time", "timeit", "sys", "os", "threading", "warnings", "random", "gc", "numpy.random")
# Torch calls these for every step and every module; name of what is seen through them -> module, dictionary.
GLOBAL_HOOKS = {
    "torch.optim.Optimizer.step (before)": ("torch.optim.optimizer", "_global_optimizer_pre_hooks"),
    "torch.optim.Optimizer.step (after)": ("torch.optim.optimizer", "_global_optimizer_post_hooks"),
    "torch.nn.Module.__call__ (before)": ("torch.nn.modules.module", "_global_forward_pre_hooks"),
    "torch.nn.Module.__call__ (after)": ("torch.nn.modules.module", "_global_forward_hooks"),
}
BEFORE = {}


def bindings():
    """(place, attribute) -> value, for modules and for the classes that they hold."""
    found = {}
    classes = {}
    for name, module in list(sys.modules.items()):
        if module is None or not (name.split(".")[0] == "torch" or name in OTHERS):
            continue
        for attribute, value in list(vars(module).items()):
            if callable(value):
                found[name, attribute] = value
            # By its type: asking an object for its class may warn of what is deprecated.
            if issubclass(type(value), type) and value.__module__.split(".")[0] in ("torch", "threading"):
                classes.setdefault(value, []).append(f"{name}.{attribute}")
    for kind, names in classes.items():
        name = min(names, key=lambda one: _plainness(one, kind.__module__))
        for attribute, value in list(vars(kind).items()):
            found[name, attribute] = value
    for name, (module, table) in GLOBAL_HOOKS.items():
        for number, hook in getattr(sys.modules[module], table).items():
            found[name, f"hook {number}"] = hook
    return found


def remember():
    BEFORE.update(bindings())


def changes():
    """Name in torch -> the watcher's files that lie around it."""
    now = bindings()
    renewed = {f"{place}.{name}" for (place, name), value in now.items() if _replaced_class(place, name, value)}
    by_original = {}
    changed = {}
    for (place, attribute), value in now.items():
        if place in renewed:
            continue  # a class that stands for another is one change
        if (place, attribute) not in BEFORE:
            # A hook, or what a class has inherited until now.
            name = place if attribute.startswith("hook ") else f"{place}.{attribute}"
            changed.setdefault(name, set()).update(_files(value))
        elif BEFORE[place, attribute] is not value:
            names, values = by_original.setdefault(id(BEFORE[place, attribute]), ([], []))
            names.append(f"{place}.{attribute}")
            values.append(value)
    for names, values in by_original.values():
        files = changed.setdefault(min(names, key=_plainness), set())
        for value in values:
            files.update(_files(value))
    return {name: sorted(files) for name, files in sorted(changed.items()) if files}


def _replaced_class(place, name, value):
    before = BEFORE.get((place, name))
    return issubclass(type(before), type) and before is not value


def _plainness(name, module=""):
    """Smallest for the name that people use: public, short, and where it is defined."""
    parts = name.split(".")
    private = sum(part.startswith("_") and not part.startswith("__") for part in parts)
    return private, len(parts), name.rpartition(".")[0] != module, len(name), name


def _files(value):
    """The files of the watcher whose functions lie around the original."""
    found, waiting, seen = set(), [value], set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        function = one if isinstance(one, FunctionType) else _function_of(one)
        code = getattr(function, "__code__", None)
        if code is None:
            continue
        waiting.append(getattr(function, "__wrapped__", None))  # contextlib may have wrapped ours once more
        if "/scalewise/watch/" not in code.co_filename:
            continue
        if code.co_filename.endswith("/watch/seams.py"):
            cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
            joined = cells["wrapped" if "wrapped" in cells else "subscribers"].cell_contents
            found.update(one.concern for one in getattr(joined, "subscribers", joined))
            waiting.append(getattr(joined, "original", None))
            continue
        found.add(code.co_filename.partition("/scalewise/watch/")[2].removesuffix(".py"))
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        waiting += [cells[name].cell_contents for name in ("original", "watched") if name in cells]
    return found


def layers():
    """Name in torch -> what lies around it, from the outside in: the concerns of a seam, the file of other wrappers."""
    found = {}
    for (place, name), value in bindings().items():
        lies_around = []
        while value is not None and not isinstance(value, type):
            code = getattr(value if isinstance(value, FunctionType) else _function_of(value), "__code__", None)
            if code is None or "/scalewise/watch/" not in code.co_filename:
                break
            seam = sys.modules["scalewise.watch.seams"].seam_of(value)
            file = code.co_filename.partition("/scalewise/watch/")[2].removesuffix(".py")
            lies_around.append([one.concern for one in reversed(seam.subscribers)] if seam else file)
            value = getattr(value, "__wrapped__", None)
        if lies_around and not name.startswith("hook "):
            found[f"{place}.{name}"] = lies_around
    return found


def _function_of(value):
    """Of a bound method, a class or an object that is called."""
    if isinstance(value, type):
        made = vars(value).get("__init__") or vars(value).get("__new__")
        return getattr(made, "__func__", made)
    return getattr(value, "__func__", None) or vars(type(value)).get("__call__")
