"""Predicts ranks and links that are not here: link, timeline and interval; values in, values out."""
