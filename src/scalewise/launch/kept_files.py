"""Keeps files that a run wrote, up to a limit, and removes what is left of its private view."""

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

MOST_KEPT_BYTES = 1 << 30  # of one run: repeats of a script with large checkpoints must not fill the disk


@dataclass
class Keeper:
    """The folder for kept files, and how much room is left in it."""

    folder: Path
    room_bytes: int = MOST_KEPT_BYTES

    def keep(self, source: Path, name: str) -> bool:
        """Moves one file; False if it is too large for the room left, or cannot be moved."""
        size = source.lstat().st_size
        if size > self.room_bytes:
            return False
        target = self.folder / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(source, target)
        except OSError:
            return False
        self.room_bytes -= size
        return True


def discard(folder: Path) -> None:
    """Removes a tree whatever its permissions: the kernel leaves folders of mode 0 in an overlay's scratch space."""
    if folder.is_symlink() or not folder.is_dir():
        return  # through a link, this would change the modes of folders elsewhere
    for top, folders, _ in os.walk(folder):
        for name in folders:
            path = Path(top, name)
            if not path.is_symlink():
                with contextlib.suppress(OSError):
                    path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
