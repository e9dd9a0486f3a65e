"""The two streams and what goes where: results to stdout, everything said about them to stderr."""

import io
import json
import sys
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from scalewise.errors import BadRequest, ReaderGone

_ANY_WIDTH = 10_000


def printable(text: str) -> str:
    """What came from a script or a file, with control characters made visible: none may steer the terminal."""
    return "".join(char if char.isprintable() or char in "\n\t" else repr(char)[1:-1] for char in text)


class _Console(Console):
    """Tells of a reader that has gone; rich, and click after it, would exit as if the request had been bad."""

    def on_broken_pipe(self) -> None:
        raise ReaderGone


class Output:
    """Where a verb writes; `quiet` silences narration, never results or errors."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # a terminal without ± shows ?, instead of ending the program
        self.data = _Console(file=sys.stdout, highlight=False, markup=False, soft_wrap=False)
        self.narration = _Console(file=sys.stderr, highlight=False, markup=False, stderr=True)

    def say(self, text: str = "", style: str = "") -> None:
        """A line of narration, never broken by us: paths and commands in it stay whole for copying."""
        if not self.quiet:
            self.narration.print(Text(printable(text), style=style), soft_wrap=True)

    def show(self, text: str = "", style: str = "") -> None:
        """A line of the result."""
        self.data.print(Text(printable(text), style=style), soft_wrap=True)

    def table(self, table: Table) -> None:
        """A narrow terminal wraps a wide table, which is ugly; a number that is cut off would be wrong."""
        options = self.data.options.update(max_width=_ANY_WIDTH)
        needed = Measurement.get(self.data, options, table).maximum
        wide = _Console(file=sys.stdout, highlight=False, markup=False, width=max(needed, self.data.width))
        wide.print(table)

    def refuse(self, error: BadRequest) -> None:
        """One sentence, and what to do next."""
        self.narration.print(Text.assemble(("scalewise: ", "bold red"), printable(error.sentence)), soft_wrap=True)
        if error.hint:
            self.narration.print(Text(printable(error.hint)), soft_wrap=True)

    def json(self, value: Any) -> None:
        """A result for a machine."""
        try:
            sys.stdout.write(json.dumps(value, indent=1) + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            raise ReaderGone from None
