"""Starts ranks, watches over them, ends them, and keeps how they ended."""
