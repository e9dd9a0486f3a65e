"""Turns evidence into report pages: sections decide what a report contains, renderers how it looks."""
