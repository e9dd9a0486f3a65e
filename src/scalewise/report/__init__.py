"""Turns what was found into pages: sections decide what a report contains, renderers how it looks."""
