"""The two streams and what goes where: results to stdout, everything said about them to stderr."""

import json
import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from scalewise.errors import BadRequest


class Output:
    """Where a verb writes; `quiet` silences narration, never results or errors."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.data = Console(file=sys.stdout, highlight=False, markup=False, soft_wrap=False)
        self.narration = Console(file=sys.stderr, highlight=False, markup=False, stderr=True)

    def say(self, text: str = "", style: str = "") -> None:
        """A line of narration."""
        if not self.quiet:
            self.narration.print(Text(text, style=style))

    def refuse(self, error: BadRequest) -> None:
        """One sentence, and what to do next."""
        self.narration.print(Text.assemble(("scalewise: ", "bold red"), error.sentence), soft_wrap=True)
        if error.hint:
            self.narration.print(Text(error.hint), soft_wrap=True)

    def json(self, value: Any) -> None:
        """A result for a machine."""
        sys.stdout.write(json.dumps(value, indent=1) + "\n")
