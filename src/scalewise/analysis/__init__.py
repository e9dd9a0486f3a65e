"""Turns runs into numbers with intervals, laws and caveats: values only, no printing, no plots, no torch."""
