"""Notes the warnings in the script's process, on their way to where they are shown."""

import functools
import warnings
from typing import Any

from scalewise.watch.examination.notebook import Notebook

MOST_WARNINGS = 200
MOST_LETTERS = 500


def install(notebook: Notebook) -> None:
    """Wraps the private function behind `showwarning`, which a script may replace."""
    module: Any = warnings
    original = module._showwarnmsg
    left = MOST_WARNINGS

    @functools.wraps(original)
    def _showwarnmsg(message: Any) -> Any:
        nonlocal left
        try:
            if left > 0 and notebook.on:
                left -= 1
                notebook.note("warning", message.category.__name__, str(message.message)[:MOST_LETTERS])
        except Exception as error:
            notebook.broke("warning", error)
        return original(message)

    module._showwarnmsg = _showwarnmsg
