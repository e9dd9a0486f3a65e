"""Reads run folders back as values."""
