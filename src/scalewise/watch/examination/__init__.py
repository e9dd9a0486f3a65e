"""Watches an examined run for the doctor: what the script does, in which order, from which line; one file per concern.

It only notes; what the notes mean is worked out by `doctor/` when they are read. No hook issues a collective, draws a
random number or changes what the script computes, prints or returns.
"""

from scalewise.records.folder import RunFolder
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.recorder import Recorder


def install(recorder: Recorder, folder: RunFolder) -> None:
    """Hooks into torch on top of the ordinary hooks, once per process."""
    notebook = Notebook(recorder, folder)
    notebook.open()
