"""Takes notes for the doctor: what an examined script does, in which order, from which line; one file per concern.

It only takes notes; `doctor/` works out what they mean when it reads them. No hook issues a collective, draws a random
number or changes what the script computes, prints or returns.
"""

import importlib
from collections.abc import Collection

import torch

from scalewise.records.folder import RunFolder
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.recorder import Recorder

# Files of this folder, each with an `install(notebook)`; one that fails does not stop the others.
CONCERNS = (
    "wrappers",  # first those that read tensors: what they read must not pass for a read of the script's
    "forward",
    "backward",
    "optimizer",
    "torch_modes",
    "after_steps",
    "gradients",
    "clocks",
    "data",
    "around_the_loop",
    "device_traffic",
    "graph",
    "device_work",
)
OF_DISTRIBUTED = ("collectives",)


def install(recorder: Recorder, folder: RunFolder, without: Collection[str] = ()) -> None:
    """Hooks into torch on top of the ordinary hooks; `without` names what has failed in this script before."""
    notebook = Notebook(recorder, folder)
    notebook.open()
    for concern in (*CONCERNS, *(OF_DISTRIBUTED if torch.distributed.is_available() else ())):
        if f"examination/{concern}" in without:
            continue
        try:
            importlib.import_module(f"{__name__}.{concern}").install(notebook)
        except Exception as error:
            notebook.broke(concern, error)
