"""Writes down which devices a redirected script has asked for."""

from scalewise.watch import redirect
from scalewise.watch.examination.notebook import Notebook


def install(notebook: Notebook) -> None:
    """Nothing is written of a script that is not redirected."""
    redirect.tell(notebook.row)
