"""Answers computed from the numbers of a run, each with its condition, its figures and what it rests on."""
