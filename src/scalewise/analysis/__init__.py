"""Turns runs into numbers with intervals: laws and caveats too; values only, no printing, no plots, no torch."""
