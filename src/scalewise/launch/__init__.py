"""Starts ranks, supervises them, ends them, and records how they ended."""
