"""Reads and writes the files of a run folder. Only this room knows their names and what stands in them.

Standard library only, because the watcher inside a rank imports this room and a GPU machine may have nothing else.
"""
