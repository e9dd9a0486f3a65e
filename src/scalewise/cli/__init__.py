"""Reads the words of the verbs: each checks what it is asked, calls its job and prints what that returns."""

from scalewise.cli.verbs import main

__all__ = ["main"]
