"""Answers to the questions of homework 2, one file per row of the course."""
