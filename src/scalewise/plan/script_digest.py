"""The identity of a script: a run of an edited script is another run, in another folder."""

import hashlib
import re
from pathlib import Path


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
