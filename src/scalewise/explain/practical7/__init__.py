"""Answers to the questions of practical 7, one file per row of the course."""
