"""Puts this folder on the path of every test of the watcher, so that all of them can import `watch_runner`."""
