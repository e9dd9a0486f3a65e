"""Writes rows to compare runs: their tensors in a few numbers, and the data that they were given."""

from scalewise.records.folder import RunFolder
from scalewise.records.spec import Examined
from scalewise.watch.parity.given import install as install_given
from scalewise.watch.parity.joint_statistics import install_joint_statistics
from scalewise.watch.parity.tensor_rows import install as install_tensors
from scalewise.watch.recorder import Recorder


def install(recorder: Recorder, folder: RunFolder, compared: Examined) -> None:
    """Hooks into optimizers, modules and loaders; each part breaks alone."""
    tensors = install_tensors(recorder, compared)
    install_given(recorder, folder, compared, tensors)
    if recorder.spec is not None and recorder.spec.on_cpu:
        install_joint_statistics()
