"""The course: one folder per suite with its experiments, and one file per question with table, figure and answers."""
