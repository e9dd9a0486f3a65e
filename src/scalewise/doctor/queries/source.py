"""Reads the script's own text: its names, as a fix in these names is easier to follow, and the line that keeps a loss.

What is read here is a hint for the reader, never the proof.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scalewise.doctor.case import RankCase
from scalewise.records.examination import PlaceRow, WrapperRow
from scalewise.records.notes import NOWHERE, Note, StepNote, ZeroNote

_NAME = r"[A-Za-z_][\w.]*(?:\[[\w\"']+\])?"


def text_of(place: PlaceRow | None, otherwise: str) -> str:
    """Returns the line without its comment, or `otherwise` if the line is not known."""
    text = place.text if place is not None else ""
    return re.sub(r"\s+#[^\"']*$", "", text) or otherwise


def assigned(place: PlaceRow | None, otherwise: str) -> str:
    """Returns the name that a line gives to what it makes: `model` in `model = DDP(net)`."""
    found = re.match(rf"({_NAME})\s*(?::[^=]+)?=[^=]", text_of(place, ""))
    return found.group(1) if found else otherwise


def called_on(place: PlaceRow | None, method: str, otherwise: str) -> str:
    """Returns the name that a method is called on: `optimizer` in `optimizer.step()`."""
    found = re.search(rf"({_NAME})\.{method}\(", text_of(place, ""))
    return found.group(1) if found else otherwise


def loader_name(rank: RankCase, note: Note | None) -> str:
    """Returns the script's name for the loader that it iterates: `loader` in `for i, x in enumerate(loader):`."""
    found = re.search(rf"\bin (?:enumerate\(|tqdm\()*({_NAME})\b(?!\()", text_of(rank.place(note), ""))
    return found.group(1) if found else "loader"


def wrapper_name(rank: RankCase, wrapper: WrapperRow | None) -> str:
    """Returns the script's name for its wrapped model."""
    return assigned(rank.places.get(wrapper.place) if wrapper is not None else None, "model")


def optimizer_name(rank: RankCase, note: Note | None) -> str:
    """Returns the script's name for the optimizer that was stepped or zeroed."""
    method = "step" if isinstance(note, StepNote) else "zero_grad"
    name = called_on(rank.place(note), method, "optimizer")
    by_another = note.scaled if isinstance(note, StepNote) else isinstance(note, ZeroNote) and note.optimizer < 0
    return "optimizer" if by_another else name


_TRAINERS = re.compile(r"(fabric|accelerator|engine|strategy)$")  # objects of libraries that are given the loss


def divided(backward: PlaceRow | None, by: str) -> str:
    """Returns the line that calls backward, with its loss divided: `(loss / 4).backward()`, or where it is given."""
    text = text_of(backward, "loss.backward()")
    scaled = re.search(rf"^(.*\.scale\()({_NAME})(\)\.backward\(.*)$", text)
    given = re.search(rf"^(.*?({_NAME})\.backward\()({_NAME})(\s*[,)].*)$", text)
    if scaled:
        return f"{scaled.group(1)}{scaled.group(2)} / {by}{scaled.group(3)}"
    if given and (_TRAINERS.search(given.group(2)) or "loss" in given.group(3)):
        return f"{given.group(1)}{given.group(3)} / {by}{given.group(4)}"
    plain = re.search(rf"^(.*?)({_NAME})(\.backward\(.*)$", text)
    if plain and not re.search(r"[\w)\]]$", plain.group(1)):
        return f"{plain.group(1)}({plain.group(2)} / {by}){plain.group(3)}"
    return f"(loss / {by}).backward()"


def micro_batches_text(count: int) -> str:
    """Returns `1 micro-batch is`, `2 micro-batches are`."""
    return "1 micro-batch is" if count == 1 else f"{count} micro-batches are"


def called_model(place: PlaceRow | None, otherwise: str = "model") -> str:
    """Returns the script's name for the model that a line calls: `self.model` in `logits, loss = self.model(x, y)`."""
    names = re.findall(rf"({_NAME})\(", text_of(place, ""))
    return next((name for name in names if re.search(r"model|net", name.rsplit(".", 1)[-1], re.IGNORECASE)), otherwise)


_STILL_HOLDING = ("mean", "sum", "clone", "cpu", "to", "cuda", "abs", "reshape", "view", "squeeze", "stack")
_NO_TENSORS = ("data", "shape", "dtype", "device", "ndim")
_KEEPING = ("append", "extend", "add", "appendleft", "insert", "update")


@dataclass(frozen=True)
class KeptLoss:
    """The line that keeps the loss, and the same line with the loss detached."""

    place: PlaceRow
    fix: str


def line_that_keeps(backward: PlaceRow | None) -> KeptLoss | None:
    """Returns the line that adds up or collects what `backward` was called on; None if no line plainly does."""
    if backward is None:
        return None
    try:
        text = Path(backward.file).read_text(encoding="utf-8")
        tree = ast.parse(text)
    except (OSError, ValueError, SyntaxError):
        return None
    around = _function_around(tree, backward.line)
    lines = text.splitlines()
    for name in _losses(around, backward.line):
        for node in _kept_in(around, name):
            line = lines[node.lineno - 1].strip()
            place = PlaceRow(NOWHERE, backward.file, node.lineno, backward.function, line)
            return KeptLoss(place, _let_go(text_of(place, line), name))
    return None


def _function_around(tree: ast.Module, line: int) -> ast.AST:
    """Returns the innermost function that contains the line, or the whole file if none does."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    functions = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    holding = [node for node in functions if node.lineno <= line <= (node.end_lineno or node.lineno)]
    return max(holding, key=lambda node: node.lineno, default=tree)


def _losses(around: ast.AST, line: int) -> list[str]:
    """Returns the names that the backward pass was called on, and those that these were made from."""
    names = []
    for node in ast.walk(around):
        if isinstance(node, ast.Call) and node.lineno == line and _called(node) == "backward":
            names += [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]
    for node in ast.walk(around):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, (ast.Name, ast.BinOp)):
            continue
        if any(isinstance(one, ast.Name) and one.id in names for one in node.targets):
            names += [one.id for one in ast.walk(node.value) if isinstance(one, ast.Name)]
    return list(dict.fromkeys(names))


def _kept_in(around: ast.AST, name: str) -> Iterator[ast.stmt]:
    """Yields the statements that add the name to something that outlives the step."""
    for node in ast.walk(around):
        if isinstance(node, ast.AugAssign) and _holds(node.value, name):
            yield node
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
            targets = {one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name)}
            if name not in targets and _holds(node.value, name) and any(_holds(node.value, one) for one in targets):
                yield node
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _collects(node.value, name):
            yield node


def _collects(call: ast.Call, name: str) -> bool:
    given = (*call.args, *(word.value for word in call.keywords))
    return _called(call) in _KEEPING and any(_holds(one, name) for one in given)


def _holds(node: ast.AST, name: str) -> bool:
    """Returns True if the expression contains the name as the tensor itself, not as a number or detached."""
    if isinstance(node, ast.Name):
        return node.id == name
    if isinstance(node, ast.Call) and _called(node) not in _STILL_HOLDING:
        return False
    if isinstance(node, ast.Attribute) and node.attr in _NO_TENSORS:
        return False
    return any(_holds(child, name) for child in ast.iter_child_nodes(node))


def _called(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _let_go(line: str, name: str) -> str:
    """Returns the line with the last occurrence of the name detached."""
    head, found, tail = line.rpartition(name)
    return f"{head}{found}.detach(){tail}" if found else line
