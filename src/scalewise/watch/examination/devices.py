"""Writes down which devices a redirected script has asked for."""

from scalewise.watch import redirect
from scalewise.watch.examination.notebook import Notebook


def install(notebook: Notebook) -> None:
    """Has the devices asked for written as rows; a script that is not redirected gives none."""
    redirect.tell(notebook.row)
