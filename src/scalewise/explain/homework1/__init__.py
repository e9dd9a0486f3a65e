"""Answers of homework 1: one file per row of the course, each from evidence to figures and from figures to answers."""
