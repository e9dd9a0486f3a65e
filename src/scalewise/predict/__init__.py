"""Predicts what a script would do on hardware that is not here: link, timeline and interval; values in, values out."""
