"""The two streams and what goes where: results to stdout, everything said about them to stderr."""

import json
import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from scalewise.errors import BadRequest


def printable(text: str) -> str:
    """What came from a script or a file, with control characters made visible: none may steer the terminal."""
    return "".join(char if char.isprintable() or char in "\n\t" else repr(char)[1:-1] for char in text)


class Output:
    """Where a verb writes; `quiet` silences narration, never results or errors."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.data = Console(file=sys.stdout, highlight=False, markup=False, soft_wrap=False)
        self.narration = Console(file=sys.stderr, highlight=False, markup=False, stderr=True)

    def say(self, text: str = "", style: str = "") -> None:
        """A line of narration."""
        if not self.quiet:
            self.narration.print(Text(printable(text), style=style))

    def show(self, text: str = "", style: str = "") -> None:
        """A line of the result."""
        self.data.print(Text(printable(text), style=style), soft_wrap=True)

    def refuse(self, error: BadRequest) -> None:
        """One sentence, and what to do next."""
        self.narration.print(Text.assemble(("scalewise: ", "bold red"), printable(error.sentence)), soft_wrap=True)
        if error.hint:
            self.narration.print(Text(printable(error.hint)), soft_wrap=True)

    def json(self, value: Any) -> None:
        """A result for a machine."""
        sys.stdout.write(json.dumps(value, indent=1) + "\n")
