"""The two output streams: results go to stdout, everything said about them to stderr."""

import io
import json
import sys
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from scalewise.errors import BadRequest, ReaderGone
from scalewise.records.codec import json_value

_ANY_WIDTH = 10_000


def printable(text: str) -> str:
    """A text from a script or a file with its control characters made visible, so that none acts on the terminal."""
    return "".join(char if char.isprintable() or char in "\n\t" else repr(char)[1:-1] for char in text)


class _Console(Console):
    """A console that raises ReaderGone for a closed pipe; rich and click would exit as if the request had been bad."""

    def on_broken_pipe(self) -> None:
        raise ReaderGone


class Output:
    """The writer of a verb; `quiet` silences narration, never results or errors."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # a terminal without ± shows ?, instead of ending the program
        self.data = _Console(file=sys.stdout, highlight=False, markup=False, soft_wrap=False)
        self.narration = _Console(file=sys.stderr, highlight=False, markup=False, stderr=True)

    def say(self, text: str = "", style: str = "") -> None:
        """Prints a line of narration without breaking it, so that paths and commands in it can be copied whole."""
        if not self.quiet:
            self.narration.print(Text(printable(text), style=style), soft_wrap=True)

    def show(self, text: str = "", style: str = "") -> None:
        """Prints a line of the result."""
        self.data.print(Text(printable(text), style=style), soft_wrap=True)

    def table(self, table: Table) -> None:
        """Prints a table at its full width: a terminal may wrap the lines, but no number is cut off."""
        options = self.data.options.update(max_width=_ANY_WIDTH)
        needed = Measurement.get(self.data, options, table).maximum
        wide = _Console(file=sys.stdout, highlight=False, markup=False, width=max(needed, self.data.width))
        wide.print(table)

    def refuse(self, error: BadRequest) -> None:
        """Prints the sentence of a refused request, and what to do next."""
        self.narration.print(Text.assemble(("scalewise: ", "bold red"), printable(error.sentence)), soft_wrap=True)
        if error.hint:
            self.narration.print(Text(printable(error.hint)), soft_wrap=True)

    def json(self, value: Any) -> None:
        """Writes a result as JSON, for programs; values of any kind become JSON values first."""
        try:
            sys.stdout.write(json.dumps(json_value(value), indent=1) + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            raise ReaderGone from None
