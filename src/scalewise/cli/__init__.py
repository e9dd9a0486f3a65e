"""The command line: verbs, what they are asked, and the pipeline from a request to measured runs."""

from scalewise.cli.verbs import main

__all__ = ["main"]
