"""Benchmarks of scalewise itself: what watching costs, what starting costs, and how often a comparison is right."""
