"""Reads and writes the files of a run folder: their names, shapes and rows. No other room
knows how such a file is laid out.

Standard library only, because the watcher inside a rank imports this room and a GPU machine may have nothing else.
"""
