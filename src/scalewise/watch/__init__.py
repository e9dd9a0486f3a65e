"""Watches a script from inside its process: the watcher, and what starts it there. Needs torch, numpy and the standard library only."""
