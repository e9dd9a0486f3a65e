"""Answers computed from the numbers of a run: each says its condition, its figure with interval, and what it rests on."""
