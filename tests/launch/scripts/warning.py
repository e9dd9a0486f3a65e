"""Warns of its own lines, of its callers, and of more callers than there are; then fails."""

import warnings


def warn(level):
    warnings.warn(f"level {level}", stacklevel=level)


warn(1)
warn(2)
warn(3)
warn(30)
raise SystemExit(3)
