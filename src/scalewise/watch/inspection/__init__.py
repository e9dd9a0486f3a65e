"""Looks closely, for reports: where data lies, what moves, what works when, how healthy gradients are.

Its times mean nothing; what the script computes, prints and returns stays as it is. One file per concern.
"""

from scalewise.records.folder import RunFolder
from scalewise.watch.inspection.inspector import Inspector
from scalewise.watch.recorder import Recorder


def install(recorder: Recorder, folder: RunFolder) -> None:
    """Hooks into torch on top of the ordinary hooks, once per process."""
    Inspector(recorder, folder).install()
