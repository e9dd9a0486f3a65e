"""Answers to the questions of homework 3, one file per row of the course."""
