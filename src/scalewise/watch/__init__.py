"""Watches a script from inside its process: the watcher, and what starts it there; needs torch and numpy, no more."""
