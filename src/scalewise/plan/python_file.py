"""Reads a script's file before it runs: whether it is Python, whether it starts its ranks itself, and its identity."""

import ast
import codecs
import hashlib
import io
import json
import re
import tokenize
import warnings
from collections.abc import Iterator
from pathlib import Path

from scalewise.errors import BadRequest

MOST_BYTES = 10_000_000
AS_UTF_8 = "Save it as UTF-8 in your editor."
_OF_TORCHRUN = ("LOCAL_RANK", "RANK", "WORLD_SIZE")
_SPAWNS = ("spawn", "start_processes")


def check_is_python(path: Path) -> None:
    """Raises a BadRequest that says what the file is instead, or where its syntax is wrong."""
    data = _bytes(path)
    text = source_text(data)
    if path.suffix == ".ipynb" or _is_notebook(text):
        hint = f"Export it first: jupyter nbconvert --to script {path}."
        raise BadRequest(f"{path} is a notebook, not a script.", hint)
    first = text.partition("\n")[0]
    if first.startswith("#!") and "python" not in first:
        raise BadRequest(f"{path} is run by {first[2:].strip()}, not by Python.", "Name the .py file that it starts.")
    _check_encoding(path, data)
    try:
        _tree(text)
    except (SyntaxError, ValueError) as error:
        if path.suffix == ".py" and isinstance(error, SyntaxError):
            line = f": {error.text.strip()[:120]}" if error.text else ""
            sentence = f"{path}, line {error.lineno}: {error.msg}{line}."
            raise BadRequest(sentence, "Python cannot read the script; fix that line first.") from None
        raise BadRequest(f"{path} is not Python.", "Name the .py file that torchrun would run.") from None


def starts_ranks_itself(path: Path) -> bool:
    """Tells whether the script calls torch.multiprocessing's spawn or starts processes that make a process group.

    A script that also looks up torchrun's variables can be started by torchrun, so False is returned for it.
    """
    try:
        text = source_text(_bytes(path))
        tree = _tree(text)
    except (BadRequest, SyntaxError, ValueError):
        return False
    if any(isinstance(node, ast.Constant) and node.value in _OF_TORCHRUN for node in _read_variables(tree)):
        return False
    modules, names = _multiprocessing(tree)
    calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    spawns = {f"{module}.{name}" for module in modules for name in _SPAWNS} | (names & set(_SPAWNS))
    if calls & spawns:
        return True
    processes = {f"{module}.Process" for module in modules} | (names & {"Process"})
    return bool(calls & processes) and any(call.rpartition(".")[2] == "init_process_group" for call in calls)


def source_text(data: bytes) -> str:
    """The text of a script, without the mark that Windows editors put before it; what cannot be read is replaced."""
    return data.decode("utf-8-sig", errors="replace")


def _bytes(path: Path) -> bytes:
    try:
        data = path.read_bytes()[:MOST_BYTES]
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}.", "Check the path and its permissions.") from error
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise BadRequest(f"{path} is saved as UTF-16, which Python cannot read.", AS_UTF_8)
    if b"\0" in data:
        raise BadRequest(f"{path} is not Python: it is a binary file.", "Name the .py file that torchrun would run.")
    return data


def _check_encoding(path: Path, data: bytes) -> None:
    """Python reads UTF-8, or what the first two lines declare, and refuses any other byte, even in a comment."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        if str(error.msg).startswith("unknown encoding"):
            raise BadRequest(f"{path}: {error.msg}.", AS_UTF_8) from None
        encoding = "utf-8"
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        words = f"{path}, line {line}: the byte 0x{data[error.start]:02x} is not {encoding}."
        raise BadRequest(words, f"Python cannot read the script. {AS_UTF_8}") from None


def _tree(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an invalid escape, of which Python warns, does not matter here
        return ast.parse(text)


def _is_notebook(text: str) -> bool:
    if not text.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(text).get("cells"), list)
    except (ValueError, RecursionError, AttributeError):
        return False


def _multiprocessing(tree: ast.Module) -> tuple[set[str], set[str]]:
    """Two sets: names of the modules torch.multiprocessing and multiprocessing, and the names imported from them."""
    wanted = ("torch.multiprocessing", "multiprocessing")
    modules, names = set(wanted), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {one.asname for one in node.names if one.name in wanted and one.asname}
        elif isinstance(node, ast.ImportFrom) and node.module in wanted:
            names |= {one.asname or one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "torch":
            modules |= {one.asname or one.name for one in node.names if one.name == "multiprocessing"}
    return modules, names


def _read_variables(tree: ast.Module) -> Iterator[ast.expr]:
    """Yields the keys that are looked up: `os.environ["RANK"]`, `os.getenv("RANK")`, `"RANK" in os.environ`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            yield node.slice
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("get", "getenv", "pop"):
            yield from node.args[:1]
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In):
            yield node.left


def script_digest(path: Path) -> str:
    """A digest that changes with the script, or with a module beside it that it imports."""
    try:
        text = path.read_bytes()
        imported = sorted(set(re.findall(rb"^\s*(?:from|import)\s+(\w+)", text, re.MULTILINE)))
        beside = [path.with_name(f"{name.decode()}.py") for name in imported]
        parts = [text, *(file.read_bytes() for file in beside if file.is_file())]
    except OSError:
        return "unreadable"
    return hashlib.sha256(b"\0".join(parts)).hexdigest()
